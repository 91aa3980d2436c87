/* One collective over MPI in host memory, measured and printed as nccl-tests does. COLLECTIVE is set by the Makefile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "exit_codes.h"
#include "job.h"
#include "memory.h"
#include "rails.h"
#include "record.h"
#include "table.h"
#include "watchdog.h"

static int fail(enum exit_code code, const char *host) {
    TRACE_FAILURE(host);
    fflush(stdout);
    record_abandon();
    return code;
}

/* Shows every process, or fails where a node has fewer emulated GPUs (LAB_NGPU) than processes. */
static int show_devices(const struct job *job, const struct place *places, int processes_here) {
    const char *limit = getenv("LAB_NGPU");
    int index = local_rank(places, job->rank), gpus = limit != NULL ? atoi(limit) : processes_here;
    if (index >= gpus) {
        fprintf(stderr, "Invalid number of GPUs: %d requested but only %d were found.\n", index + 1, gpus);
        fprintf(stderr, "Please check the number of processes and GPUs per process.\n");
        return EXIT_NOT_IMPLEMENTED;
    }
    const struct place *here = &places[job->rank];
    struct device mine = {.rank = job->rank, .group = here->colour, .pid = (int)getpid(), .index = index};
    memcpy(mine.host, here->host, sizeof mine.host);
    snprintf(mine.bus_id, sizeof mine.bus_id, "0000:00:%02x", (unsigned)index & 0xff);
    struct device *all = memory_or_exit((size_t)job->size * sizeof *all);
    job_gather(&mine, all, sizeof mine);
    if (job->rank == 0) {
        table_devices(all, job->size);
        record_devices(all, job->size);
    }
    free(all);
    return EXIT_OK;
}

/* Two buffers a process must fit into its share of the node, less a sixteenth for everything else. */
static void limit_sizes(struct options *options, int processes_here) {
    double physical = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    size_t limit = (size_t)job_fold(physical * 15 / 16 / processes_here / 2, FOLD_MIN);
    if (options->max_bytes <= limit) return;
    options->max_bytes = limit;
    if (options->min_bytes > limit) options->min_bytes = limit;
    table_reduced_max(limit);
}

static struct bench set_up(enum collective_id id, const struct options *options, const struct job *job, const struct group *group) {
    const char *algorithm = getenv("BUSBW_PAYLOAD_ALGO"), *corrupt = getenv("LAB_CORRUPT");
    struct bench bench = {.id = id, .options = options, .job = job, .group = group};
    bench.tuned = algorithm != NULL && strcmp(algorithm, "mpi") == 0;
    if (corrupt != NULL && *corrupt != '\0') {
        char *end;
        bench.corrupt = strtol(corrupt, &end, 10) == job->rank;
        if (*end == ':') bench.corrupt_bytes = strtoull(end + 1, NULL, 10);
    }
    return bench;
}

/* What cannot be known before the job has started. */
static const char *mistake_in(const struct bench *bench) {
    int root = bench->options->root;
    bool has_root = root == ALL || (root >= 0 && root < bench->group->size);
    if (collectives[bench->id].has_root && !has_root) return "-r must be a rank of the group, or -1 for every rank in turn";
    if (bench->tuned && bench->corrupt) return "LAB_CORRUPT works on the ring algorithms, not with BUSBW_PAYLOAD_ALGO=mpi";
    return NULL;
}

/* Exchanges who runs where, and starts the rails where there are any. */
static struct place *find_places(const struct job *job, struct place here) {
    struct place *places = memory_or_exit((size_t)job->size * sizeof *places);
    job_allgather(&here, places, sizeof here);
    int rails = rails_wanted();
    for (int p = 0; p < job->size; p++) places[p].rail = rails > 0 ? local_rank(places, p) % rails : NO_RAIL;
    if (rails > 0 && job->size > 1) rails_start(places, job->size, job->rank);
    return places;
}

static int run(enum collective_id id, struct options *options, const struct job *job, const char *program) {
    struct place here = {.colour = job->size > 1 ? split_colour(job->rank) : 0};
    host_name(here.host);
    struct place *places = find_places(job, here);
    int processes_here = local_size(places, job->size, job->rank);
    struct group group = group_make(places, job->size, job->rank);
    struct bench bench = set_up(id, options, job, &group);
    const char *mistake = mistake_in(&bench);
    if (mistake != NULL) {
        fprintf(stderr, "%s: %s\n", program, mistake);
        return fail(EXIT_INVALID_USAGE, here.host);
    }

    table_begin(job->rank == 0, options);
    table_config(program, bench.tuned ? "the MPI library's" : "ring", rails_wanted() > 0 && !bench.tuned ? getenv("LAB_RAILS") : NULL);
    record_config(options);
    int status = show_devices(job, places, processes_here);
    if (status != EXIT_OK) return fail(status, here.host);
    limit_sizes(options, processes_here);
    table_header();
    watchdog_start(options->timeout_s, here.host);
    struct summary summary = bench_run(&bench);
    table_summary(&summary, program);
    record_summary(&summary);
    group_free(&group);
    free(places);
    /* The document is complete before MPI ends: the first process to leave with an error has the launcher kill the others. */
    table_last_line();
    record_end();
    job_finish();
    return summary.errors > 0 || !fast_enough(&summary) ? fail(EXIT_RESULTS, here.host) : EXIT_OK;
}

int main(int argc, char **argv) {
    const char *slash = strrchr(argv[0], '/'), *program = slash != NULL ? slash + 1 : argv[0];
    setlinebuf(stdout);
    struct options options = options_parse(argc, argv, program);
    struct job job = job_start();
    if (job.rank == 0) record_begin(options.output_file, argc, argv);
    return run(collective_named(COLLECTIVE), &options, &job, program);
}
