# $1 = the run, $2 = the folder of its jobs.

free_lease "$1"
rm -rf -- "$2"
