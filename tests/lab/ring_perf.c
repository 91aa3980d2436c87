// All-reduces of SIZE bytes over MPI for at least SECONDS: prints the busbw of each round in GB/s. Its name ends as a benchmark's must for faults.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  size_t size = strtoull(argv[1], NULL, 10);
  double seconds = strtod(argv[2], NULL);
  float *send = calloc(1, size), *receive = calloc(1, size);
  int go_on = 1;
  double start = MPI_Wtime();
  while (go_on) {
    MPI_Barrier(MPI_COMM_WORLD);
    double round = MPI_Wtime();
    MPI_Allreduce(send, receive, (int)(size / sizeof(float)), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    // Rank 0 may be done while others still wait for what lies in socket buffers.
    MPI_Barrier(MPI_COMM_WORLD);
    round = MPI_Wtime() - round;
    if (rank == 0) {
      printf("busbw %.6f\n", size / round * 2 * (ranks - 1) / ranks / 1e9);
      fflush(stdout);
      go_on = MPI_Wtime() - start < seconds;
    }
    MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
