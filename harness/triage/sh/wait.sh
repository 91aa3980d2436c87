# Until so long after the first look; the kernel's clock counts in hundredths.

read -r now _ </proc/uptime; s=$((${LOOKED%.*}${LOOKED#*.} + INTERVAL * 100 - ${now%.*}${now#*.}))
part=$((s % 100)); [ "$part" -gt 9 ] || part=0$part
[ "$s" -le 0 ] || sleep "$((s / 100)).$part" 2>/dev/null || sleep "$((s / 100 + 1))"; echo "waited"
