# Removes the line, and what was made for it.

# The header stays as long as another run has a key here, and so does the folder.
shared() { grep -va "$lines" "$file" 2>/dev/null | grep -qa ' busbw-[^ ]*$'; }
# A process of this run that was killed with the lock may have a child that still puts the key in place.
at_work() { owners | grep -qF "$mark@"; }
ready() { ! at_work && ! grep -qa "$lines" "$file" 2>/dev/null && { [ ! -e "$made" ] || shared; }; }
ready && exit 0
ours() { if shared; then echo "$lines"; else printf '%s\n' "$lines" "^$header\$"; fi; }
next() {
  [ ! -e "$file" ] || { cp -p "$file" "$part" && { grep -va "$(ours)" "$file" > "$part"; [ $? -le 1 ]; }; }
}
put() {
  # A file that was made for the key goes, but for what somebody else wrote into it.
  if [ -e "$part" ] && [ ! -s "$part" ] && grep -qax "$header" "$file"; then mv -f "$file" "$part" && rm -f "$part"
  elif [ -e "$part" ]; then mv -f "$part" "$file"; fi
  # Whoever has the lock is alone: other versions are of processes that lost it.
  rm -f "$file.busbw."*
  [ ! -e "$made" ] || shared || clear_folder
}
somebodys() {
  for path in "$dir"/* "$dir"/.[!.]*; do
    case $path in "$file.busbw."*) ;; *) [ ! -e "$path" ] || return 0 ;; esac
  done
  return 1
}
clear_folder() { { [ ! -d "$dir" ] || rmdir "$dir" || somebodys; } && rm -f "$made"; } 2>/dev/null
change
echo "removed the temporary key"
