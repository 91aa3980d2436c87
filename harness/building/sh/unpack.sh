# Puts the tar.gz on standard input in the place of $1, whole.

dir=$1; part="$dir.part.$$"
trap 'rm -rf "$part"; exit 143' HUP INT TERM
mkdir -p "$part" && tar -xzf - -C "$part" || { rm -rf "$part"; exit 70; }
rm -rf "$dir" && mv "$part" "$dir"
