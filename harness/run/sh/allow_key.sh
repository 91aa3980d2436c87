# Adds the line on standard input. $1 = mark of the run, $2 = its lines as grep finds them.

line=$(cat)
# A key that came only in part has no mark by which it could be removed again.
case $line in *" $1") ;; *) echo "the key came only in part" >&2; exit 71 ;; esac
grep -qaFx -- "$line" "$file" 2>/dev/null && exit 0
# A key of an earlier try, which could not be removed from here, lets nobody in any more: the head has another now.
without() { { grep -a "^# This file .*$1" "$file"; [ $? -le 1 ]; } > "$part" && { grep -va "$1" "$file"; [ $? -le 1 ]; } >> "$part"; }
made="This file was"
[ -d "$dir" ] || { mkdir -p "$dir" && made="This file and its folder were"; }
if [ -e "$file" ]; then
  cp -p "$file" "$part" && { ! grep -qa "$2" "$file" || without "$2"; } && { [ -z "$(tail -c 1 "$part")" ] || echo >> "$part"; }
else echo "# $made made for $1" > "$part"; fi && printf '%s\n' "$line" >> "$part" && [ "$(tail -n 1 "$part")" = "$line" ] || fail
mv -f "$part" "$file" || fail
