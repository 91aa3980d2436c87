# State of the links between AMD's GPUs; releases before ROCm 6.4 show only their type and rate.

amd || exit 0
"$A" xgmi --link-status --json || exec "$A" xgmi --metric --json
