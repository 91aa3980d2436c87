#include "bench.h"

#include <string.h>

#include "memory.h"
#include "record.h"
#include "table.h"
#include "verify.h"
#include "watchdog.h"

/* One type, operator and root of a sweep, at one size. */
struct test {
    const struct bench *bench;
    char *send, *recv; /* max_bytes each */
    enum dtype type;
    enum redop op;
    int root;
    struct counts counts; /* elements */
    struct row row;
};

struct totals {
    int errors;
    double busbw_gb_s;
    long measurements;
};

static size_t next_size(const struct options *o, size_t size) {
    size_t next = o->step_factor > 1 ? size * o->step_factor : size + o->step_bytes;
    return next > size ? next : o->max_bytes + 1; /* nothing follows a size of 0 by multiplication */
}

static void set_size(struct test *t, size_t bytes) {
    size_t element = dtype_size(t->type);
    t->counts = collective_counts(t->bench->id, bytes, element, t->bench->group->size);
    t->row.bytes = (t->counts.send > t->counts.recv ? t->counts.send : t->counts.recv) * element;
    t->row.count = t->counts.param;
}

/* The buffers of one call. Successive iterations use successive parts of the memory, lest a cache answer for it. */
static void buffers(const struct test *t, bool in_place, int iteration, char **in, char **out) {
    size_t element = dtype_size(t->type), rank = (size_t)t->bench->group->rank;
    size_t parts = t->row.bytes > 0 ? t->bench->options->max_bytes / t->row.bytes : 1;
    size_t offset = t->row.bytes * ((size_t)iteration % (parts > 0 ? parts : 1));
    char *send = t->send + offset, *recv = t->recv + offset;
    *in = in_place ? recv + t->counts.send_offset * rank * element : send;
    *out = in_place ? recv + t->counts.recv_offset * rank * element : recv;
}

static void run_once(const struct test *t, bool in_place, int iteration) {
    const struct bench *b = t->bench;
    struct settings settings = {b->tuned, b->corrupt && (b->corrupt_bytes == 0 || b->corrupt_bytes == t->row.bytes)};
    char *in, *out;
    buffers(t, in_place, iteration, &in, &out);
    watchdog_arm();
    collective_run(b->id, b->group, in, out, t->counts.param, t->type, t->op, t->root, settings);
    watchdog_disarm();
}

static void barrier(void) {
    watchdog_arm();
    job_barrier();
    watchdog_disarm();
}

static double fold(double value, enum fold how) {
    watchdog_arm();
    double folded = job_fold(value, how);
    watchdog_disarm();
    return folded;
}

/* Seconds of all iterations together, without the barriers of -z 3; each iteration's seconds for one call go to `each`. */
static double time_iterations(const struct test *t, bool in_place, double *each) {
    const struct options *o = t->bench->options;
    double calls_only = 0, start = now_s(), before = start;
    for (int i = 0; i < o->iters; i++) {
        if (o->blocking == 3) before = now_s();
        for (int call = 0; call < o->agg_iters; call++) {
            run_once(t, in_place, i * o->agg_iters + call);
            if (o->blocking == 1) barrier();
        }
        double after = now_s();
        each[i] = (after - before) / o->agg_iters;
        calls_only += after - before;
        before = after;
        if (o->blocking == 3) barrier();
    }
    return calls_only;
}

static double over_processes(double value, const struct bench *b) {
    switch (b->options->average) {
    case 1: return fold(value, FOLD_SUM) / b->job->size;
    case 2: return fold(value, FOLD_MIN);
    case 3: return fold(value, FOLD_MAX);
    default: return value; /* process 0's own, since it is the one that prints */
    }
}

static void prepare(const struct test *t, bool in_place, const struct exercise *exercise) {
    char *in, *out;
    buffers(t, in_place, 0, &in, &out);
    memset(t->recv, 0, t->row.bytes);
    verify_fill(exercise, in);
}

/* Wrong elements over all processes, in the first of the verified runs that has any. Counts this process in when it has some. */
static long long check(const struct test *t, bool in_place, struct totals *totals) {
    static int round;
    const struct bench *b = t->bench;
    bool reported = !in_place || collectives[b->id].checks_in_place;
    round++;
    for (int run = 0; run < b->options->check_iters; run++) {
        struct exercise exercise = {b->id, b->group, t->counts, t->type, t->op, t->root, round};
        char *in, *out;
        prepare(t, in_place, &exercise);
        barrier();
        run_once(t, in_place, 0);
        buffers(t, in_place, 0, &in, &out);
        long long wrong = verify_wrong(&exercise, out);
        if (reported && wrong > 0) totals->errors++;
        wrong = (long long)fold((double)wrong, FOLD_SUM);
        if (wrong > 0) return wrong;
    }
    return 0;
}

/* Shows the iteration times; the processes' own go to process 0. */
static void show_spread(const struct test *t, bool in_place, double *each) {
    const struct bench *b = t->bench;
    int iters = b->options->iters, processes = b->job->size;
    double *all = memory_or_exit((size_t)iters * (size_t)processes * sizeof *all);
    for (int i = 0; i < iters; i++) each[i] *= 1e6;
    watchdog_arm();
    job_gather(each, all, (size_t)iters * sizeof *each);
    watchdog_disarm();
    if (b->job->rank == 0) {
        for (int i = 0; i < iters; i++)
            for (int p = 0; p < processes; p++)
                if (all[p * iters + i] > each[i]) each[i] = all[p * iters + i];
        int skipped = b->options->per_iter_skip;
        struct spread spread = {stats_of(each + skipped, iters - skipped), each, processes > 1 ? all : NULL, iters, skipped, processes};
        table_spread(&spread);
        record_spread(!in_place, &spread);
    }
    free(all);
}

static void measure(const struct test *t, bool in_place, struct totals *totals) {
    const struct bench *b = t->bench;
    const struct options *o = b->options;
    double *each = memory_or_exit((size_t)o->iters * sizeof *each);
    if (o->check_iters > 0) {
        struct exercise exercise = {b->id, b->group, t->counts, t->type, t->op, t->root, 0};
        prepare(t, in_place, &exercise);
    }
    run_once(t, in_place, 0);
    barrier();
    double own_s = time_iterations(t, in_place, each) / o->iters / o->agg_iters;
    double mean_s = over_processes(own_s, b);
    double algbw = (double)t->row.bytes / 1e9 / mean_s;
    barrier();
    struct measurement m = {.algbw_gb_s = algbw, .busbw_gb_s = algbw * collective_bus_factor(b->id, b->group->size)};
    m.wrong = check(t, in_place, totals);
    m.checked = o->check_iters > 0 && (!in_place || collectives[b->id].checks_in_place);
    /* A call returns when its data are there: the time to launch it is the whole time, and -C shows process 0's. */
    m.time_us = (o->cputime ? own_s : mean_s) * 1e6;
    table_measurement(&m);
    record_measurement(!in_place, &m, o->cputime);
    if (o->per_iter) show_spread(t, in_place, each);
    if (in_place && o->timestamps) table_timestamp();
    totals->busbw_gb_s += m.busbw_gb_s;
    totals->measurements++;
    free(each);
}

static void sweep(struct test *t, struct totals *totals) {
    const struct options *o = t->bench->options;
    t->row.type = dtype_name(t->type);
    t->row.redop = collectives[t->bench->id].names_op ? redop_name(t->op) : "none";
    t->row.root = t->root;
    barrier();
    for (size_t size = o->min_bytes; size <= o->max_bytes; size = size > 0 ? size * 2 : o->max_bytes + 1) {
        set_size(t, size);
        for (int i = 0; i < o->warmup_iters; i++) run_once(t, false, i);
    }
    for (int cycle = 0; o->run_cycles == 0 || cycle < o->run_cycles; cycle++) {
        for (size_t size = o->min_bytes; size <= o->max_bytes; size = next_size(o, size)) {
            set_size(t, size);
            table_row(&t->row);
            record_row(&t->row);
            measure(t, false, totals);
            measure(t, true, totals);
            table_end_row();
            record_end_row(o->iters);
        }
    }
}

struct summary bench_run(const struct bench *b) {
    const struct options *o = b->options;
    const struct collective *c = &collectives[b->id];
    struct totals totals = {0};
    struct test test = {.bench = b, .send = memory_or_exit(o->max_bytes), .recv = memory_or_exit(o->max_bytes)};
    memset(test.send, 1, o->max_bytes); /* touch every page: untouched ones are all the same page, which a cache holds */
    memset(test.recv, 1, o->max_bytes);
    int first_type = o->type == ALL ? 0 : o->type, last_type = o->type == ALL ? DTYPES - 1 : o->type;
    bool every_op = o->op == ALL && c->names_op, every_root = o->root == ALL && c->has_root;
    int first_op = o->op == ALL ? 0 : o->op, last_op = every_op ? REDOPS - 1 : first_op;
    int smallest_group = (int)fold(b->group->size, FOLD_MIN); /* groups run in step, so all try the roots that all have */
    int first_root = !c->has_root ? NO_ROOT : every_root ? 0 : o->root, last_root = every_root ? smallest_group - 1 : first_root;
    for (int type = first_type; type <= last_type; type++)
        for (int op = first_op; op <= last_op; op++)
            for (int root = first_root; root <= last_root; root++) {
                test.type = (enum dtype)type, test.op = (enum redop)op, test.root = root;
                sweep(&test, &totals);
            }
    free(test.send);
    free(test.recv);
    const char *least = getenv("NCCL_TESTS_MIN_BW");
    return (struct summary){(int)fold(totals.errors, FOLD_SUM), totals.busbw_gb_s / (double)totals.measurements,
                            least != NULL ? atof(least) : NO_LEAST};
}
