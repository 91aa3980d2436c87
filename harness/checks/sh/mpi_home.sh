# The folder of the MPI, by its header mpi.h.

m=$(command -v mpirun)
for d in "$MPI_HOME" "$HPCX_MPI_DIR" "${m%/*/*}" /usr/lib/x86_64-linux-gnu/openmpi /usr/lib/aarch64-linux-gnu/openmpi /usr/lib64/openmpi /opt/amazon/openmpi5 /opt/amazon/openmpi /usr/mpi/gcc/openmpi-*; do
  [ -n "$d" ] && [ -f "$d/include/mpi.h" ] && {
    echo "$d"
    exit 0
  }
done
exit 1
