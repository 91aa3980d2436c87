{ dmesg 2>/dev/null || limit 5 journalctl -k -b -o short-monotonic --no-pager -n 400; } | tail -n 400
