# $1 = directory of the job.

end "$1"
exit 0
