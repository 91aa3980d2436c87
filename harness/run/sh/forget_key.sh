# Removes the line, and what was made for it.

ready() { ! grep -qa "$lines" "$file" 2>/dev/null; }
ready && { tidy; exit 0; }
# The header stays as long as another run has a key here.
ours() { if grep -va "$lines" "$file" | grep -qa ' busbw-[^ ]*$'; then echo "$lines"; else printf '%s\n' "$lines" "^$header\$"; fi; }
next() {
  cp -p "$file" "$part" && { grep -va "$(ours)" "$file" > "$part"; [ $? -le 1 ]; }
}
# A file that was made for the key goes: into the lock's folder, which is gone where the lock was lost.
put() { if [ ! -s "$part" ] && grep -qax "$header" "$file"; then mv -f "$file" "$part"; else mv -f "$part" "$file"; fi; }
change
tidy
echo "removed the temporary key"
