set --; IFS=$NL; set -f; seen=
for line in $files; do case $line in "place "*) path=${line#place * }; path=${path%/*}/
  case $seen in *"$NL$path$NL"*) ;; *) [ $# -lt 40 ] && set -- "$@" "$path"; seen="$seen$NL$path$NL";; esac;; esac; done
unset IFS; set +f
