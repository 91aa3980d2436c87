total=0
for f in "$@"; do [ -f "$f" ] || continue; told=$(stat -c '%s %Y' "$f") || continue; echo "file $told $f"; size=${told% *}
  [ "$size" -le 4000000 ] && total=$((total + size)) && [ "$total" -le 24000000 ] && base64 -w 0 "$f"; echo; done
