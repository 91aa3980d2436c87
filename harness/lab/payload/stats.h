/* The spread of iteration times. */
#ifndef PAYLOAD_STATS_H
#define PAYLOAD_STATS_H

struct stats {
    double min, max, mean, p50, p95, p99, stdev; /* in the unit of the times */
    double cv_percent;
};

/* p50 is the upper median, p95 and p99 are nearest rank, stdev is the population's. count is at least 1. */
struct stats stats_of(const double *times, int count);

/* Seconds on a clock that is never set. */
double now_s(void);

#endif
