/* What the table and the JSON document have in common. */
#ifndef PAYLOAD_REPORT_H
#define PAYLOAD_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "placement.h"
#include "stats.h"

#define PAYLOAD_VERSION "1.0"
#define DEVICE_NAME "host memory (emulated, no GPU)"

/* One process as the Rank lines and config.devices show it. */
struct device {
    int rank, group, pid, index;
    char host[HOST_LENGTH];
    char bus_id[16]; /* domain:bus:device of an emulated GPU: the device number is the index */
};

struct row {
    size_t bytes, count;
    const char *type, *redop;
    int root;
};

struct measurement {
    double time_us, algbw_gb_s, busbw_gb_s;
    bool checked;
    long long wrong;
};

/* Iteration times in µs, of one direction of one row. */
struct spread {
    struct stats stats;        /* of the iterations after the skipped ones */
    const double *times;       /* the slowest process of each iteration */
    const double *per_process; /* processes x iterations, NULL with one process */
    int iterations, skipped, processes;
};

struct summary {
    int errors;           /* (process, measurement) pairs with wrong data */
    double busbw_gb_s;    /* mean of every bus bandwidth shown */
    double least_gb_s;    /* NCCL_TESTS_MIN_BW, or NO_LEAST */
};
#define NO_LEAST (-1.0)

/* nccl-tests lets a tenth go by. */
static inline bool fast_enough(const struct summary *summary) { return !(summary->busbw_gb_s < summary->least_gb_s * 0.9); }

#define TIME_FORMAT "%Y-%m-%d %H:%M:%S"

#endif
