# The launcher's remote agent: arguments N SSH… NODE COMMAND…, N words before the node. The command is for sh, whatever the
# login shell of the node: it travels as octal, which no shell changes. SHELL tells mpirun, which asks for it, whose words to use.

words=$1; shift; i=0; node=; command=
for word; do
  shift; i=$((i + 1))
  if [ -n "$node" ]; then command="$command $word"; continue; fi
  set -- "$@" "$word"
  [ $i -le "$words" ] || case $word in -*) ;; *) node=$word ;; esac
done
octal=$(printf %s "$command" | od -An -v -to1 | sed 's/ /\\/g' | tr -d '\n')
exec "$@" "exec env SHELL=/bin/bash sh -c 'eval \"\$(printf \"\$1\")\"' sh '$octal'"
