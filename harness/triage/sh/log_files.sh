set --; IFS=$NL; set -f; h=; seen=
for line in $files; do
  case $line in
    "log "*) line=${line#log };;
    "debug "*) line=${line#debug }; h=${h:-$(hostname)}; line=$(printf '%s' "$line" | sed "s/%h/$h/g;s/%p/${line%% *}/g");;
    *) continue;;
  esac
  case $seen in *"$NL${line#* }$NL"*) ;; *) set -- "$@" "${line%% *}" "${line#* }"; seen="$seen$NL${line#* }$NL";; esac
done
unset IFS; set +f
