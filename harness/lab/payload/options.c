#include "options.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "dtype.h"
#include "exit_codes.h"

static const struct option long_options[] = {
    {"nthreads", required_argument, NULL, 't'},
    {"ngpus", required_argument, NULL, 'g'},
    {"minbytes", required_argument, NULL, 'b'},
    {"maxbytes", required_argument, NULL, 'e'},
    {"stepbytes", required_argument, NULL, 'i'},
    {"stepfactor", required_argument, NULL, 'f'},
    {"iters", required_argument, NULL, 'n'},
    {"agg_iters", required_argument, NULL, 'm'},
    {"warmup_iters", required_argument, NULL, 'w'},
    {"run_cycles", required_argument, NULL, 'N'},
    {"parallel_init", required_argument, NULL, 'p'},
    {"check", required_argument, NULL, 'c'},
    {"op", required_argument, NULL, 'o'},
    {"datatype", required_argument, NULL, 'd'},
    {"root", required_argument, NULL, 'r'},
    {"blocking", required_argument, NULL, 'z'},
    {"stream_null", required_argument, NULL, 'y'},
    {"timeout", required_argument, NULL, 'T'},
    {"cudagraph", required_argument, NULL, 'G'},
    {"report_cputime", required_argument, NULL, 'C'},
    {"report_timestamps", required_argument, NULL, 'S'},
    {"output_file", required_argument, NULL, 'J'},
    {"average", required_argument, NULL, 'a'},
    {"local_register", required_argument, NULL, 'R'},
    {"cta_policy", required_argument, NULL, 'x'},
    {"device_implementation", required_argument, NULL, 'D'},
    {"device_cta_count", required_argument, NULL, 'V'},
    {"memory", required_argument, NULL, 'M'},
    {"unalign", required_argument, NULL, 'u'},
    {"per_iter_timing", required_argument, NULL, 'I'},
    {"per_iter_skip", required_argument, NULL, 'K'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

const char *options_dialect(void) {
    const char *older = getenv("LAB_SPEAKS");
    return older != NULL ? older : "2.19.6";
}

static void print_usage(const char *program) {
    printf("USAGE: %s \n", program);
    for (const struct option *option = long_options; option->name != NULL; option++)
        printf("\t[-%c,--%s%s] \n", option->val, option->name, option->has_arg ? " <value>" : "");
    printf("Collectives over MPI in host memory, with the options and the output of nccl-tests 2.19.6.\n"
           "No effect here: -p -y -R -x -V -M -u. Refused: -t and -g above 1, -G, -D.\n");
}

/* Bytes with an optional k, M or G (1024 steps), as nccl-tests reads them. */
static size_t parse_size(const char *text, const char *name) {
    double value = -1;
    char unit = 0;
    int fields = sscanf(text, "%lf %c", &value, &unit);
    double scale = -1;
    if (fields == 1) scale = 1;
    else if (unit == 'k' || unit == 'K') scale = 1024.0;
    else if (unit == 'm' || unit == 'M') scale = 1024.0 * 1024;
    else if (unit == 'g' || unit == 'G') scale = 1024.0 * 1024 * 1024;
    if (fields < 1 || scale < 0 || !(value >= 0) || value * scale > 1e18) {
        fprintf(stderr, "invalid size specified for '%s'\n", name);
        exit(EXIT_ARGUMENT);
    }
    return (size_t)(value * scale);
}

static void refuse(const char *program, const char *what, const char *value) {
    fprintf(stderr, "%s: %s '%s' is not available in host memory\n", program, what, value);
    exit(EXIT_NOT_IMPLEMENTED);
}

/* nccl-tests goes on with the default when it does not know a name; so does this, and says so the same way. */
static int name_or_default(int found, const char *program, const char *what, const char *given, const char *fallback, int fallback_value) {
    if (found == UNSUPPORTED) refuse(program, what, given);
    if (found != UNKNOWN) return found;
    printf("invalid %s %s, defaulting to %s .. \n", what, given, fallback);
    return fallback_value;
}

static void ignore(int option, const char *value) {
    if (strtol(value, NULL, 0) != 0) printf("Option -%c has no meaning in host memory. Ignoring\n", option);
}

/* The combinations that nccl-tests corrects or rejects once all options are known. */
static void settle(struct options *o) {
    if (o->min_bytes > o->max_bytes) {
        fprintf(stderr, "invalid sizes for 'minbytes' and 'maxbytes': %zu > %zu\n", o->min_bytes, o->max_bytes);
        exit(EXIT_ARGUMENT);
    }
    if (o->step_factor <= 1 && o->step_bytes == 0) { /* nccl-tests would repeat the first size for ever */
        fprintf(stderr, "invalid size specified for 'stepBytes'\n");
        exit(EXIT_ARGUMENT);
    }
    if (o->per_iter != 0 && o->per_iter != 1) {
        fprintf(stderr, "per-iteration timing (-I) only supports 0=off or 1=on. Disabling.\n");
        o->per_iter = 0;
    }
    if (o->per_iter_skip < 0 || (o->per_iter_skip > 0 && o->per_iter_skip >= o->iters)) {
        fprintf(stderr, "per-iteration skip (-K) must be between 0 and %d. Disabling.\n", o->iters - 1);
        o->per_iter_skip = 0;
    }
    if (o->per_iter_skip && !o->per_iter) {
        fprintf(stderr, "per-iteration skip (-K) requires per-iteration timing (-I 1). Disabling.\n");
        o->per_iter_skip = 0;
    }
}

static void require(bool good, const char *program, const char *rule) {
    if (good) return;
    fprintf(stderr, "%s: %s\n", program, rule);
    exit(EXIT_ARGUMENT);
}

/* What nccl-tests would take and this program cannot follow. */
static void check_ranges(const struct options *o, const char *program) {
    if (o->threads != 1 || o->gpus != 1) {
        fprintf(stderr, "%s: one process is one emulated GPU: -t 1 -g 1, not -t %d -g %d; start more processes instead\n", program,
                o->threads, o->gpus);
        exit(EXIT_NOT_IMPLEMENTED);
    }
    require(o->iters > 0 && o->agg_iters > 0, program, "-n and -m must be at least 1");
    require(o->warmup_iters >= 0 && o->check_iters >= 0, program, "-w and -c must not be negative");
    require(o->timeout_s >= 0 && o->run_cycles >= 0, program, "-T and -N must not be negative");
    require(o->blocking >= 0 && o->blocking <= 3 && o->average >= 0 && o->average <= 3, program, "-z and -a go from 0 to 3");
}

struct options options_parse(int argc, char **argv, const char *program) {
    struct options o = {.threads = 1, .gpus = 1, .min_bytes = 32 << 20, .max_bytes = 32 << 20, .step_bytes = 1 << 20, .step_factor = 1,
                        .iters = 20, .agg_iters = 1, .warmup_iters = 1, .run_cycles = 1, .check_iters = 1, .op = SUM, .type = FLOAT,
                        .average = 1};
    const char *letters = "t:g:b:e:i:f:n:m:w:N:p:I:K:c:o:d:r:z:y:T:hG:C:a:R:x:D:V:J:S:M:u:";
    int option;
    while ((option = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
        int number = optarg != NULL ? (int)strtol(optarg, NULL, 0) : 0;
        /* What came with 2.19 is unknown to who pretends to be older: usage and success, as those versions answer. */
        if ((option == 'I' || option == 'K') && getenv("LAB_SPEAKS") != NULL) option = '?';
        switch (option) {
        case 't': o.threads = number; break;
        case 'g': o.gpus = number; break;
        case 'b': o.min_bytes = parse_size(optarg, "minbytes"); break;
        case 'e': o.max_bytes = parse_size(optarg, "maxbytes"); break;
        case 'i': o.step_bytes = parse_size(optarg, "stepBytes"); break;
        case 'f': o.step_factor = number < 0 ? 0 : (size_t)number; break;
        case 'n': o.iters = number; break;
        case 'm': o.agg_iters = number; break;
        case 'w': o.warmup_iters = number; break;
        case 'N': o.run_cycles = number; break;
        case 'c': o.check_iters = number; break;
        case 'o': o.op = name_or_default(redop_named(optarg), program, "op", optarg, "sum", SUM); break;
        case 'd': o.type = name_or_default(dtype_named(optarg), program, "type", optarg, "float", FLOAT); break;
        case 'r': o.root = number; break;
        case 'z': o.blocking = number; break;
        case 'T': o.timeout_s = number; break;
        case 'C': o.cputime = number; break;
        case 'S': o.timestamps = number; break;
        case 'J': o.output_file = optarg; break;
        case 'a': o.average = number; break;
        case 'I': o.per_iter = number; break;
        case 'K': o.per_iter_skip = number; break;
        case 'G':
        case 'D':
            if (number != 0) refuse(program, option == 'G' ? "option -G" : "option -D", optarg);
            break;
        case 'p': case 'y': case 'R': case 'x': case 'V': case 'M': case 'u': ignore(option, optarg); break;
        case 'h': print_usage(program); exit(EXIT_OK);
        default:
            printf("invalid option '%c'\n", option);
            print_usage(program);
            exit(EXIT_OK);
        }
    }
    check_ranges(&o, program);
    settle(&o);
    return o;
}
