words='NCCL WARN|NCCL error|[Ww]atchdog|last enqueued|[Tt]imed out|Traceback|Error|ERROR|Killed|No space left|heartbeat|Broken pipe|reset by peer'
while [ $# -gt 1 ]; do
  if [ -f "$2" ]; then echo "log $(stat -c '%s %Y' "$2") $1 $2"; tail -c 4000000 "$2" | grep -naE "$words" | tail -n 40
    echo "end of log"; tail -n 4 "$2"; echo; echo "end of tail"; fi; shift 2
done 2>/dev/null | cut -c 1-600 | head -c 2000000
