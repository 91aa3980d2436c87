# Topology files of Azure, and the VM size where the chassis says that this is Azure.

for f in /opt/microsoft/*topo*.xml; do
  [ -e $f ] && echo topo $f
done
a=
r=/sys/class/dmi/id/chassis_asset_tag
[ -r $r ] && read -r a <$r
case $a in
7783-7084-3265-9085-8269-3286-77)
  u='http://169.254.169.254/metadata/instance/compute/vmSize?api-version=2021-02-01&format=text'
  echo size "$(curl -s -m 3 -H Metadata:true "$u")"
  ;;
esac
:
