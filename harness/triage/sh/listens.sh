grep -qs ':6D7C 0*:0000 0A' "/proc/${FIRST:-self}/net/tcp" "/proc/${FIRST:-self}/net/tcp6" && echo "listens"
echo "not asked"
