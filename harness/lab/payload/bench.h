/* The sweep: warm-up, timed iterations, verification, one row a size. */
#ifndef PAYLOAD_BENCH_H
#define PAYLOAD_BENCH_H

#include "collectives.h"
#include "job.h"
#include "options.h"
#include "report.h"

struct bench {
    enum collective_id id;
    const struct options *options;
    const struct job *job;
    const struct group *group;
    bool tuned;
    bool corrupt;         /* LAB_CORRUPT names this process */
    size_t corrupt_bytes; /* the only size it applies to; 0: every size */
};

/* Runs every size of every type, operator and root asked for, and shows the rows. Collective over the whole job. */
struct summary bench_run(const struct bench *bench);

#endif
