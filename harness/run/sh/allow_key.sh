# Adds the line on standard input: whole or, with exit status 73, not at all.

line=$(cat)
# A key that came only in part has no mark by which it could be removed again.
case $line in *" $mark") ;; *) echo "the key came only in part" >&2; exit 71 ;; esac
# Where nodes share a home the first of them adds it and the others find it.
ready() { grep -qaFx -- "$line" "$file" 2>/dev/null; }
next() {
  # A key of an earlier try, which could not be removed from here, lets nobody in any more: the head has another now.
  if [ -e "$file" ]; then cp -p "$file" "$part" && { grep -va "$lines" "$file" > "$part"; [ $? -le 1 ]; }
  else echo "$header" > "$part"; fi && { [ -z "$(tail -c 1 "$part")" ] || echo >> "$part"; } &&
    printf '%s\n' "$line" >> "$part" && [ "$(tail -n 1 "$part")" = "$line" ]
}
put() { mv -f "$part" "$file"; }
change
