# Removes the line. $1 = mark of the run, $2 = its lines as grep finds them.

rm -f "$part"
made=$(grep -a "^# This file .*$2" "$file" 2>/dev/null)
grep -qa "$2" "$file" 2>/dev/null || exit 0
cp -p "$file" "$part" || fail
grep -va "$2" "$file" > "$part"; [ $? -le 1 ] || fail
echo "removed the temporary key"
if [ -s "$part" ] || [ -z "$made" ]; then mv -f "$part" "$file" || fail; exit; fi
rm -f "$part" "$file"
case $made in *folder*) rmdir "$dir" 2>/dev/null ;; esac
exit 0
