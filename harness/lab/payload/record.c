#include "record.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "json.h"
#include "memory.h"

extern char **environ;
static struct json json; /* file NULL: nothing is recorded */

static bool starts_with(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

/* What explains a measurement. The rest of an environment may hold secrets, and a result file travels; even the launcher's part has the
 * job's key in it. */
static const char *const environment_kept[] = {"NCCL_", "OMPI_", "UCX_", "FI_", "SLURM_JOB_ID=", "CUDA_VISIBLE_DEVICES=",
                                               "LD_LIBRARY_PATH=", "LAB_", "BUSBW_PAYLOAD_"};
static const char *const environment_dropped = "OMPI_MCA_orte_";

static bool is_kept(const char *variable) {
    if (starts_with(variable, environment_dropped)) return false;
    for (size_t i = 0; i < sizeof environment_kept / sizeof *environment_kept; i++)
        if (starts_with(variable, environment_kept[i])) return true;
    return false;
}

static void put_environment(void) {
    json_open_array(&json, "env");
    for (char **variable = environ; *variable != NULL; variable++)
        if (is_kept(*variable)) json_string(&json, NULL, *variable);
    json_close(&json);
}

static void put_now(const char *key) {
    char text[32];
    time_t now = time(NULL);
    strftime(text, sizeof text, TIME_FORMAT, localtime(&now));
    json_string(&json, key, text);
}

static FILE *create(const char *path) {
    size_t length = strlen(path) + 16;
    char *name = memory_or_exit(length);
    snprintf(name, length, "%s", path);
    FILE *file = NULL;
    for (int attempt = 0; (file = fopen(name, "wx")) == NULL; attempt++) {
        if (errno != EEXIST) {
            printf("# skipping json output; %s not accessible\n", name);
            break;
        }
        snprintf(name, length, "%s.%d", path, attempt);
    }
    if (file != NULL) printf("# Writing JSON output to %s\n", name);
    free(name);
    return file;
}

void record_begin(const char *path, int argc, char **argv) {
    const char *suffix = path == NULL ? NULL : strrchr(path, '.');
    if (suffix == NULL || strcasecmp(suffix, ".json") != 0) return;
    json.file = create(path);
    if (json.file == NULL) return;
    json_open_object(&json, NULL);
    json_integer(&json, "version", 3);
    put_now("start_time");
    json_open_array(&json, "args");
    for (int i = 0; i < argc; i++) json_string(&json, NULL, argv[i]);
    json_close(&json);
    put_environment();
    json_null(&json, "nccl_version"); /* there is no NCCL here */
}

void record_config(const struct options *o) {
    if (json.file == NULL) return;
    json_open_object(&json, "config");
    json_integer(&json, "nthreads", o->threads);
    json_integer(&json, "ngpus", o->gpus);
    json_integer(&json, "minimum_bytes", (long long)o->min_bytes);
    json_integer(&json, "maximum_bytes", (long long)o->max_bytes);
    if (o->step_factor > 1) json_integer(&json, "step_factor", (long long)o->step_factor);
    else json_integer(&json, "step_bytes", (long long)o->step_bytes);
    json_integer(&json, "warmup_iters", o->warmup_iters);
    json_integer(&json, "iterations", o->iters);
    json_integer(&json, "aggregated_iterations", o->agg_iters);
    json_integer(&json, "validation", o->check_iters);
    json_integer(&json, "graph", 0);
    json_bool(&json, "blocking_collectives", o->blocking);
    json_bool(&json, "per_iter_timing", o->per_iter);
    json_integer(&json, "per_iter_skip", o->per_iter_skip);
    json_bool(&json, "parallel_init", false);
}

/* Completes the config and begins the results. */
void record_devices(const struct device *devices, int count) {
    if (json.file == NULL) return;
    json_open_array(&json, "devices");
    for (const struct device *d = devices; d < devices + count; d++) {
        json_open_object(&json, NULL);
        json_integer(&json, "rank", d->rank);
        json_integer(&json, "group", d->group);
        json_integer(&json, "pid", d->pid);
        json_string(&json, "hostname", d->host);
        json_integer(&json, "device", d->index);
        json_string(&json, "device_hex", d->bus_id);
        json_string(&json, "device_info", DEVICE_NAME);
        json_close(&json);
    }
    json_close(&json);
    json_close(&json);
    json_open_array(&json, "results");
}

void record_row(const struct row *row) {
    if (json.file == NULL) return;
    char root[16];
    snprintf(root, sizeof root, "%6d", row->root);
    json_open_object(&json, NULL);
    json_integer(&json, "size", (long long)row->bytes);
    json_integer(&json, "count", (long long)row->count);
    json_string(&json, "type", row->type);
    json_string(&json, "redop", row->redop);
    json_string(&json, "root", root);
}

void record_measurement(bool out_of_place, const struct measurement *m, bool cputime) {
    if (json.file == NULL) return;
    json_open_object(&json, out_of_place ? "out_of_place" : "in_place");
    json_number(&json, cputime ? "cpu_time" : "time", m->time_us);
    json_number(&json, "alg_bw", m->algbw_gb_s);
    json_number(&json, "bus_bw", m->busbw_gb_s);
    if (m->checked) json_number(&json, "nwrong", (double)m->wrong);
    else json_null(&json, "nwrong");
    json_close(&json);
}

static void put_times(const char *key, const double *times, int count) {
    json_open_array(&json, key);
    for (int i = 0; i < count; i++) json_number(&json, NULL, times[i]);
    json_close(&json);
}

void record_spread(bool out_of_place, const struct spread *s) {
    if (json.file == NULL) return;
    json_open_object(&json, out_of_place ? "out_of_place_per_iter" : "in_place_per_iter");
    json_integer(&json, "skipped_iterations", s->skipped);
    json_number(&json, "min_us", s->stats.min);
    json_number(&json, "max_us", s->stats.max);
    json_number(&json, "avg_us", s->stats.mean);
    json_number(&json, "p50_us", s->stats.p50);
    json_number(&json, "p95_us", s->stats.p95);
    json_number(&json, "p99_us", s->stats.p99);
    json_number(&json, "stdev_us", s->stats.stdev);
    json_number(&json, "cv_pct", s->stats.cv_percent);
    put_times("times_us", s->times, s->iterations);
    if (s->per_process != NULL) {
        json_open_array(&json, "per_process_max_times_us");
        for (int p = 0; p < s->processes; p++) put_times(NULL, s->per_process + (size_t)p * (size_t)s->iterations, s->iterations);
        json_close(&json);
    }
    json_close(&json);
}

/* A finished row is on disk before the next begins: whatever ends the process, the rows measured until then can be read back. */
void record_end_row(int iterations) {
    if (json.file == NULL) return;
    json_integer(&json, "actual_iterations", iterations);
    json_string(&json, "experiment_name", "");
    json_close(&json);
    fflush(json.file);
}

void record_summary(const struct summary *s) {
    if (json.file == NULL) return;
    json_close(&json); /* results */
    json_open_object(&json, "out_of_bounds");
    json_integer(&json, "count", s->errors);
    json_bool(&json, "okay", s->errors == 0);
    json_close(&json);
    json_open_object(&json, "average_bus_bandwidth");
    json_number(&json, "bandwidth", s->busbw_gb_s);
    if (s->least_gb_s == NO_LEAST) json_string(&json, "okay", "unchecked");
    else json_bool(&json, "okay", fast_enough(s));
    json_close(&json);
    json_open_array(&json, "errors");
    json_string(&json, NULL, "");
    json_close(&json);
}

void record_abandon(void) {
    if (json.file == NULL) return;
    while (json.depth > 0) json_close(&json);
    fclose(json.file);
    json.file = NULL;
}

void record_end(void) {
    if (json.file == NULL) return;
    put_now("end_time");
    record_abandon();
}
