/* The six collectives: how many bytes each moves, what its bandwidth factor is, and how to run it over rings. */
#ifndef PAYLOAD_COLLECTIVES_H
#define PAYLOAD_COLLECTIVES_H

#include <stdbool.h>
#include <stddef.h>

#include "dtype.h"
#include "placement.h"

enum { NO_ROOT = -1 }; /* also what the root column shows */

enum collective_id { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALLTOALL, BROADCAST, SENDRECV, COLLECTIVES };

struct collective {
    const char *name;       /* the binary is name_perf */
    bool reduces;
    bool names_op;          /* the table shows the operator (sendrecv does, although it reduces nothing) */
    bool has_root;
    bool split_by_rank;     /* a size is the total over ranks, cut into one part a rank */
    bool checks_in_place;   /* nccl-tests prints N/A in place for alltoall and sendrecv */
};

extern const struct collective collectives[COLLECTIVES];

/* Returns COLLECTIVES where no collective has that name. */
enum collective_id collective_named(const char *name);

/* Counts in elements, for one rank; "offset" is where a rank's own part begins in an in-place buffer, per rank. */
struct counts {
    size_t send, recv, param, send_offset, recv_offset;
};
struct counts collective_counts(enum collective_id id, size_t bytes, size_t element, int ranks);

/* busbw / algbw */
double collective_bus_factor(enum collective_id id, int ranks);

/* How an operation is to be run, apart from its data. */
struct settings {
    bool tuned;   /* BUSBW_PAYLOAD_ALGO=mpi: the MPI library's own collective instead of rings */
    bool corrupt; /* LAB_CORRUPT names this process and this size */
};

/* Runs the collective once. count is the "count" column; in and out may overlap as in-place operation has it. */
void collective_run(enum collective_id id, const struct group *group, const void *in, void *out, size_t count, enum dtype type,
                    enum redop op, int root, struct settings settings);

#endif
