# What shows the fabric: the vendor of the machine, and which of the directories "$@" exist.

r() {
  v=
  [ -r $2 ] && read -r v <$2
  echo $1=$v
}
r vendor /sys/class/dmi/id/sys_vendor
r product /sys/class/dmi/id/product_name
for d in "$@"; do
  [ -d "$d" ] && echo "directory=$d"
done
:
