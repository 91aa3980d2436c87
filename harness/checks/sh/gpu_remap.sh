# Rows of memory that were put out of use. $1 = NVIDIA's fields.

amd && exec "$A" bad-pages --json
nvidia-smi --query-remapped-rows="$1" --format=csv,nounits
