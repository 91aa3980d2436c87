# $1 = the run: its lease shows that it goes on.

case $(readlink "$lease") in "run=$1,"*) touch -h "$lease" ;; esac
