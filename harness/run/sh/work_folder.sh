# Makes the work folder $1 below $2, which is there, for this user alone: what lies in it is executed.
# Exit status 77 = it cannot be trusted, and why stands on standard error.

umask 077
refuse() { echo "$1" >&2; exit 77; }
[ -d "$2" ] || refuse "$2 is not there"
mkdir -p -- "$1" 2>/dev/null
[ ! -L "$1" ] || refuse "$1 is a link"
[ -d "$1" ] || refuse "$1 cannot be made"
[ -O "$1" ] || refuse "$1 belongs to $(stat -c %U "$1"), not to $(id -un)"
case $(stat -c %a "$1") in *[2367]? | *[2367]) refuse "others can write to $1" ;; esac
chmod 700 "$1" || refuse "the mode of $1 cannot be changed"
# Who may rename a folder above it may put another in its place. 65534 is who owns what a user namespace does not map.
folder=$(cd -P -- "$1" && pwd) || refuse "$1 cannot be entered"
while [ "$folder" != / ]; do
  folder=${folder%/*}; folder=${folder:-/}
  case $(stat -c %u "$folder") in 0 | 65534 | "$(id -u)") ;; *) refuse "$folder above it belongs to $(stat -c %U "$folder")" ;; esac
  [ -k "$folder" ] || case $(stat -c %a "$folder") in *[2367]) refuse "everybody can write to $folder above it" ;; esac
done
# What lies here is executed: a full disk is another matter, and is told elsewhere.
if probe=$(mktemp "$1/.probe.XXXXXX" 2>/dev/null) && printf '#!/bin/sh\n' 2>/dev/null > "$probe"; then
  chmod 700 "$probe"
  "$probe" </dev/null 2>/dev/null || { rm -f "$probe"; refuse "nothing in $1 can be executed: mounted noexec?"; }
fi
rm -f "$probe"
