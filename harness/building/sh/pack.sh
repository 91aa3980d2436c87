# Writes the binaries of the build in $1 as a tar.gz.
# shellcheck disable=SC2046  # the names of libraries hold no blank

cd "$1" && tar -cf - build/*_perf $(ls -d build/*.so* 2>/dev/null) | gzip -n
