# One block per process: `pid`, the kept variables, exe, cwd, network namespace, command line,
# communication library.

{ grep -azHsE "^($NAMES|$KEPT)=" $1 /dev/null | tr '\n\0' ' \n'
  grep -azHs '' $2 /dev/null | tr '\n\0' ' \n'
  ls -ld $3 2>/dev/null
  grep -aosEHm1 '(libnccl|librccl|libtorch_cpu|libmpi)[^ /]*' $4 /dev/null; } | awk '
{ s = substr($0, index($0, "/proc/") + 6); p = s; sub(/\/.*/, "", p); if (p !~ /^[0-9]+$/) next
  if (!(p in known)) { known[p] = 1; order[++n] = p }
  s = substr(s, length(p) + 2)
  if (s ~ /^environ:/) own[p] = own[p] substr(s, 9) "\n"
  else if (s ~ /^cmdline:/) { if (length(words[p]) < 300) words[p] = words[p] substr(s, 9) " " }
  else if (s ~ /^maps:/) library[p] = "library " substr(s, 6) "\n"
  else if ((i = index(s, " -> ")) > 0) { k = substr(s, 1, i - 1); if (k == "ns/net") k = "netns"; own[p] = own[p] k " " substr(s, i + 4) "\n" } }
END { for (i = 1; i <= n; i++) { p = order[i]; printf "pid %s\n%scommand %s\n%s", p, own[p], substr(words[p], 1, 300), library[p] } }' |
head -c 4000000
