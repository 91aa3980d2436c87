# Host name, home, user, SSH connection and mpirun of this session.

read -r n </proc/sys/kernel/hostname
while read -r k u _; do
  case $k in Uid:) break ;; esac
done </proc/self/status
printf "host=%s\nhome=%s\nuid=%s\nssh=%s\nmpirun=%s\nshell=%s\n" "$n" "$HOME" "$u" "$SSH_CONNECTION" "$(command -v mpirun)" "$SHELL"
