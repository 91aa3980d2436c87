#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory.h"

double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double nearest_rank(const double *sorted, int count, int percent) {
    int rank = (count * percent + 99) / 100;
    return sorted[rank > 0 ? rank - 1 : 0];
}

struct stats stats_of(const double *times, int count) {
    double *sorted = memory_or_exit((size_t)count * sizeof *sorted);
    memcpy(sorted, times, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    struct stats stats = {.min = sorted[0], .max = sorted[count - 1], .p50 = sorted[count / 2],
                          .p95 = nearest_rank(sorted, count, 95), .p99 = nearest_rank(sorted, count, 99)};
    double squares = 0;
    for (int i = 0; i < count; i++) stats.mean += sorted[i] / count;
    for (int i = 0; i < count; i++) squares += (sorted[i] - stats.mean) * (sorted[i] - stats.mean);
    stats.stdev = sqrt(squares / count);
    stats.cv_percent = stats.mean > 0 ? 100 * stats.stdev / stats.mean : 0;
    free(sorted);
    return stats;
}
