# Adds the line on standard input: whole or, with exit status 73, not at all.

seconds() { read -r up _ < /proc/uptime; echo "${up%.*}"; }
began=$(seconds)
line=$(cat)
# A key that came only in part has no mark by which it could be removed again.
case $line in *" $mark") ;; *) echo "the key is truncated" >&2; exit 71 ;; esac
# Where nodes share a home the first of them adds it and the others find it.
ready() { grep -qaFx -- "$line" "$file" 2>/dev/null; }
next() {
  [ -d "$dir" ] || { true > "$made" && mkdir "$dir"; } || return
  # A key of an earlier try, which could not be removed from here, lets nobody in any more: the head has another now.
  if [ -e "$file" ]; then cp -p "$file" "$part" && { grep -va "$lines" "$file" > "$part"; [ $? -le 1 ]; }
  else echo "$header" > "$part"; fi && { [ -z "$(tail -c 1 "$part")" ] || echo >> "$part"; } &&
    printf '%s\n' "$line" >> "$part" && [ "$(tail -n 1 "$part")" = "$line" ]
}
# After 30 s nobody waits for this any more, and the removal may have been here.
put() { [ $(($(seconds) - began)) -lt 25 ] || { echo "other processes held $lock for too long" >&2; exit 75; }; mv -f "$part" "$file"; }
change
