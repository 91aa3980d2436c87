# Device nodes that user space opens.

for n in /dev/infiniband/* /sys/class/infiniband/rdmap*; do
  [ -e "$n" ] && echo "${n##*/}"
done
:
