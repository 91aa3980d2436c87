# The first process of the job's session: writes when it began and ended, and its exit status.

cat /proc/uptime > began; echo > status.part && echo $$ > pid.part && mv pid.part pid || exit 70
sh job.sh > stdout 2> stderr
s=$?; cat /proc/uptime > ended; forget "pid.$(cat launcher)"; echo $s 1<> status.part && mv status.part status
