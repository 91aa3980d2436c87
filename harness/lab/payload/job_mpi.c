#include <mpi.h>
#include <stdbool.h>
#include <string.h>

#include "job.h"

struct job job_start(void) {
    struct job job;
    int threads;
    /* The watchdog's thread never calls MPI. */
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &threads);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    return job;
}

void job_finish(void) { MPI_Finalize(); }
void job_barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

void job_allgather(const void *mine, void *all, size_t bytes_each) {
    MPI_Allgather(mine, (int)bytes_each, MPI_BYTE, all, (int)bytes_each, MPI_BYTE, MPI_COMM_WORLD);
}

void job_gather(const void *mine, void *all, size_t bytes_each) {
    MPI_Gather(mine, (int)bytes_each, MPI_BYTE, all, (int)bytes_each, MPI_BYTE, 0, MPI_COMM_WORLD);
}

double job_fold(double value, enum fold how) {
    const MPI_Op ops[] = {[FOLD_SUM] = MPI_SUM, [FOLD_MIN] = MPI_MIN, [FOLD_MAX] = MPI_MAX};
    double folded;
    MPI_Allreduce(&value, &folded, 1, MPI_DOUBLE, ops[how], MPI_COMM_WORLD);
    return folded;
}

static MPI_Datatype mpi_type(enum dtype type) {
    const MPI_Datatype types[DTYPES] = {[INT8] = MPI_INT8_T,   [UINT8] = MPI_UINT8_T,   [INT32] = MPI_INT32_T, [UINT32] = MPI_UINT32_T,
                                        [INT64] = MPI_INT64_T, [UINT64] = MPI_UINT64_T, [FLOAT] = MPI_FLOAT,   [DOUBLE] = MPI_DOUBLE};
    return types[type];
}

/* A communicator of the group's members, made once. */
static MPI_Comm communicator(const struct group *group) {
    static MPI_Comm made = MPI_COMM_NULL;
    if (made == MPI_COMM_NULL) MPI_Comm_split(MPI_COMM_WORLD, group->job_rank[0], group->rank, &made);
    return made;
}

void job_tuned(enum collective_id id, const struct group *group, const void *in, void *out, size_t count, enum dtype type, enum redop op,
               int root) {
    const MPI_Op ops[REDOPS] = {[SUM] = MPI_SUM, [PROD] = MPI_PROD, [MAX] = MPI_MAX, [MIN] = MPI_MIN};
    MPI_Comm comm = communicator(group);
    MPI_Datatype element = mpi_type(type);
    int n = (int)count;
    size_t own = (size_t)group->rank * count * dtype_size(type);
    switch (id) {
    case ALL_REDUCE: MPI_Allreduce(in == out ? MPI_IN_PLACE : in, out, n, element, ops[op], comm); break;
    case ALL_GATHER: {
        bool in_place = in == (const char *)out + own;
        MPI_Allgather(in_place ? MPI_IN_PLACE : in, n, element, out, n, element, comm);
        break;
    }
    case REDUCE_SCATTER: {
        /* MPI's in-place form leaves the result at the start of the buffer, nccl-tests' in the rank's own block. */
        bool in_place = (const char *)in + own == out;
        MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : in, in_place ? (void *)((char *)out - own) : out, n, element, ops[op], comm);
        if (in_place && own > 0) memmove(out, (char *)out - own, count * dtype_size(type));
        break;
    }
    case ALLTOALL: MPI_Alltoall(in == out ? MPI_IN_PLACE : in, n, element, out, n, element, comm); break;
    case BROADCAST: {
        bool is_root = group->rank == root;
        if (is_root && in != out) memcpy(out, in, count * dtype_size(type));
        MPI_Bcast(out, n, element, root, comm);
        break;
    }
    case SENDRECV:
    case COLLECTIVES: break;
    }
}
