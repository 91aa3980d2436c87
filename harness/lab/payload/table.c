#include "table.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

static bool prints;
static const struct options *o;

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put(const char *format, ...) {
    if (!prints) return;
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
}

void table_begin(bool prints_here, const struct options *options) {
    prints = prints_here;
    o = options;
}

void table_config(const char *program, const char *algorithm, const char *rails) {
    bool factor = o->step_factor > 1;
    /* Not nccl-tests' version line: there is no NCCL here, and no parser shall think so. */
    put("# busbw payload %s (host memory over MPI, %s algorithms, speaks the nccl-tests %s dialect)\n", PAYLOAD_VERSION, algorithm,
        options_dialect());
    if (rails != NULL) put("# Rails: %s, one a process by local rank\n", rails);
    put("# Collective test starting: %s\n", program);
    put("# nThread %d nGpus %d minBytes %zu maxBytes %zu step: %zu(%s) ", o->threads, o->gpus, o->min_bytes, o->max_bytes,
        factor ? o->step_factor : o->step_bytes, factor ? "factor" : "bytes");
    put("warmup iters: %d iters: %d agg iters: %d validation: %d graph: 0 unalign: 0\n", o->warmup_iters, o->iters, o->agg_iters,
        o->check_iters);
    if (o->blocking == 1) put("# Blocking Enabled: wait and barrier after each inner iteration (-m) \n");
    if (o->blocking == 2) put("# Blocking Enabled: wait after each inner iteration (-m), no barrier \n");
    if (o->blocking == 3) put("# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier \n");
    if (o->per_iter) {
        put("# Per-Iteration Report: host clock timing; i_* uses max over process rows");
        if (o->per_iter_skip) put("; summary skips first %d iterations", o->per_iter_skip);
        put(" \n");
    }
    put("#\n");
}

void table_devices(const struct device *devices, int count) {
    put("# Using devices\n");
    for (const struct device *d = devices; d < devices + count; d++)
        put("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%s] %s\n", d->rank, d->group, d->pid, d->host, d->index, d->bus_id,
            DEVICE_NAME);
}

void table_reduced_max(size_t bytes) { put("#\n# Reducing maxBytes to %zu due to memory limitation\n", bytes); }

/* One of the two lines that head the columns: five labels, four a direction, four more with -I. */
static void header_line(const char *const labels[5], const char *const timed[4], const char *const spread[4], const char *stamp) {
    put("# %10s  %12s  %8s  %6s  %6s", labels[0], labels[1], labels[2], labels[3], labels[4]);
    for (int direction = 0; direction < 2; direction++) {
        put("  %7s  %6s  %6s  %6s", timed[0], timed[1], timed[2], timed[3]);
        if (o->per_iter) put("  %7s  %7s  %7s  %7s", spread[0], spread[1], spread[2], spread[3]);
    }
    put(" %*s\n", o->timestamps ? 19 : 0, o->timestamps ? stamp : "");
}

void table_header(void) {
    put("#\n# %10s  %12s  %8s  %6s  %6s", "", "", "", "", "");
    if (o->per_iter) put("%14sout-of-place (+ per-iteration)%32sin-place (+ per-iteration)\n", "", "");
    else put("%11sout-of-place%23sin-place%10s\n", "", "", "");
    const char *time = o->cputime ? "cputime" : "time";
    header_line((const char *const[]){"size", "count", "type", "redop", "root"}, (const char *const[]){time, "algbw", "busbw", "#wrong"},
                (const char *const[]){"i_min", "i_max", "i_p99", "i_cv%"}, "timestamp");
    header_line((const char *const[]){"(B)", "(elements)", "", "", ""}, (const char *const[]){"(us)", "(GB/s)", "(GB/s)", ""},
                (const char *const[]){"(us)", "(us)", "(us)", "(%)"}, TIME_FORMAT);
}

/* The value right-aligned in the width, with as many decimals as fit. */
static const char *fitted(char *text, size_t capacity, int width, double value) {
    for (int decimals = 2; decimals >= 0; decimals--)
        if (snprintf(text, capacity, "%*.*f", width, decimals, value) <= width) return text;
    snprintf(text, capacity, "%*.*e", width, width >= 7 ? 1 : 0, value);
    return text;
}

void table_row(const struct row *row) {
    put("%12zu  %12zu  %8s  %6s  %6d", row->bytes, row->count, row->type, row->redop, row->root);
}

void table_measurement(const struct measurement *m) {
    char time[32], algbw[32], busbw[32];
    put("  %7s  %6s  %6s", fitted(time, sizeof time, 7, m->time_us), fitted(algbw, sizeof algbw, 6, m->algbw_gb_s),
        fitted(busbw, sizeof busbw, 6, m->busbw_gb_s));
    if (m->checked) put("  %6g", (double)m->wrong);
    else put("     N/A");
}

void table_spread(const struct spread *s) {
    const double columns[] = {s->stats.min, s->stats.max, s->stats.p99, s->stats.cv_percent};
    char text[32];
    for (int i = 0; i < 4; i++) put("  %7s", fitted(text, sizeof text, 7, columns[i]));
}

void table_timestamp(void) {
    char text[32];
    time_t now = time(NULL);
    strftime(text, sizeof text, TIME_FORMAT, localtime(&now));
    put("%21s", text);
}

void table_end_row(void) { put("\n"); }

void table_summary(const struct summary *s, const char *program) {
    put("# %-20s : %d %s\n", "Out of bounds values", s->errors, s->errors ? "FAILED" : "OK");
    put("# %-20s : %g %s\n", "Avg bus bandwidth", s->busbw_gb_s, s->least_gb_s == NO_LEAST ? "" : fast_enough(s) ? "OK" : "FAILED");
    put("#\n");
    put("# Collective test concluded: %s\n", program);
    put("#\n");
}

/* Where nccl-tests shows NCCL's last error, or nothing. */
void table_last_line(void) { put("\n"); }
