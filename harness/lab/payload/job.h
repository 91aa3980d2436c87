/* The parallel job this process is part of: job_mpi.c over MPI, job_alone.c for a program of one rank (built without MPI=1). */
#ifndef PAYLOAD_JOB_H
#define PAYLOAD_JOB_H

#include <stddef.h>

#include "collectives.h"
#include "dtype.h"
#include "placement.h"

enum fold { FOLD_SUM, FOLD_MIN, FOLD_MAX };

struct job {
    int rank, size;
};

struct job job_start(void);
void job_finish(void);
void job_barrier(void);

/* The contribution of every process, in rank order: on all processes, or on process 0 alone. */
void job_allgather(const void *mine, void *all, size_t bytes_each);
void job_gather(const void *mine, void *all, size_t bytes_each);
double job_fold(double value, enum fold how);

/* The collectives of the MPI library itself (BUSBW_PAYLOAD_ALGO=mpi); every one but sendrecv. */
void job_tuned(enum collective_id id, const struct group *group, const void *in, void *out, size_t count, enum dtype type, enum redop op,
               int root);

#endif
