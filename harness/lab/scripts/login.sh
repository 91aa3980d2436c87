# Every session of a node in loopback mode starts here: sshd itself would start it in the home directory of this machine's user.
#
# Started by the node's bin/login as  sh login.sh HOME SFTP_SERVER
cd "$1" || exit 255
case "${SSH_ORIGINAL_COMMAND-}" in
"") exec "${SHELL:-/bin/sh}" -l ;;
internal-sftp) exec "$2" ;;
*) exec "${SHELL:-/bin/sh}" -c "$SSH_ORIGINAL_COMMAND" ;;
esac
