#!/bin/sh
# A tool of a node with invented hardware: prints what the lab composed for this command line. Nothing here is a real device's answer.
#
# The answers lie in /run/node/hardware/answers/TOOL: one file per command line (words joined by _, `plain` without any, `any` for all others), its
# standard error in FILE.err, its exit status in FILE.status; query-NAME is a table whose columns are the fields one may ask for.
tool=${0##*/}
at=/run/node/hardware/answers/$tool

# query TABLE FIELDS FORMAT: the columns asked for, as `nvidia-smi --query-…=FIELDS --format=…` prints them.
query() {
    awk -F '\t' -v wanted="$2" -v format="$3" '
    function unit(name) { return match(name, / \[.*\]$/) ? " " substr(name, RSTART + 2, RLENGTH - 3) : "" }
    NR == 1 {
        for (i = 1; i <= NF; i++) { name = $i; sub(/ \[.*/, "", name); at[name] = i; title[i] = $i }
        n = split(wanted, field, ",")
        for (i = 1; i <= n; i++) {
            gsub(/ /, "", field[i])
            if (!(field[i] in at)) { printf "Field \"%s\" is not a valid field to query.\n\n", field[i]; exit 2 }
            head = head (i > 1 ? ", " : "") title[at[field[i]]]
        }
        if (format !~ /noheader/) print head
        next
    }
    {
        line = ""
        for (i = 1; i <= n; i++) {
            value = $(at[field[i]])
            if (format !~ /nounits/ && value !~ /^\[/) value = value unit(title[at[field[i]]])
            line = line (i > 1 ? ", " : "") value
        }
        print line
    }' "$at/$1"
}

table= fields= format=
for word; do
    case $tool:$word in
    nvidia-smi:--query-*=*) table=${word%%=*} fields=${word#*=} ;;
    nvidia-smi:--format=*) format=$word ;;
    esac
done
case $tool:${table:+query}:$1 in
nvidia-smi:query:*)
    case $format in
    *csv*) query "${table#--}" "$fields" "$format" ;;
    *) echo '"--format=" switch is missing. Please run "nvidia-smi -h" for help.' && exit 2 ;;
    esac
    exit
    ;;
systemctl::is-active)
    shift
    status=3
    for unit; do
        if grep -qx "${unit%.service}" "$at/active"; then echo active && status=0; else echo inactive; fi
    done
    exit $status
    ;;
esac

key=$(IFS=_; printf %s "${*:-plain}")
case $key in */*) key=any ;; esac
[ -e "$at/$key" ] || [ -e "$at/$key.status" ] || key=any
if [ ! -e "$at/$key" ] && [ ! -e "$at/$key.status" ]; then
    echo "$tool: the lab has composed no answer to this command line" >&2
    exit 2
fi
# The first line of the plain table is the time.
[ "$tool:$key" = nvidia-smi:plain ] && LC_ALL=C date '+%a %b %e %T %Y'
[ -e "$at/$key.err" ] && cat "$at/$key.err" >&2
[ -f "$at/$key" ] && cat "$at/$key"
[ -e "$at/$key.status" ] || exit 0
read -r status <"$at/$key.status"
exit "$status"
