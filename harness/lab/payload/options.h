/* The command line: nccl-tests 2.19.6's options, short and long. */
#ifndef PAYLOAD_OPTIONS_H
#define PAYLOAD_OPTIONS_H

#include <stddef.h>

struct options {
    int threads, gpus; /* per process; anything but 1 is refused */
    size_t min_bytes, max_bytes, step_bytes, step_factor;
    int iters, agg_iters, warmup_iters, run_cycles;
    int check_iters;      /* 0: no verification */
    int op, type;         /* enum redop, enum dtype, or ALL */
    int root;             /* ALL: every rank in turn */
    int blocking;         /* -z 0..3 */
    int timeout_s;        /* 0: no watchdog */
    int cputime;          /* -C */
    int timestamps;       /* -S */
    int average;          /* -a 0 rank 0, 1 mean, 2 minimum, 3 maximum over processes */
    int per_iter, per_iter_skip;
    const char *output_file; /* NULL: none */
};

/* Fills the options from the command line. Exits, as nccl-tests does before MPI starts: 0 on -h or an unknown option, 255 on a bad
 * size, 5 on what this program cannot do. */
struct options options_parse(int argc, char **argv, const char *program);

/* The version of nccl-tests that it speaks as: 2.19.6, or what LAB_SPEAKS says, to try what is done with older ones. */
const char *options_dialect(void);

#endif
