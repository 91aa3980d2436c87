#include "dtype.h"

#include <stdint.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} types[DTYPES] = {
    [INT8] = {"int8", 1},   [UINT8] = {"uint8", 1},   [INT32] = {"int32", 4}, [UINT32] = {"uint32", 4},
    [INT64] = {"int64", 8}, [UINT64] = {"uint64", 8}, [FLOAT] = {"float", 4}, [DOUBLE] = {"double", 8},
};
static const char *const ops[REDOPS] = {[SUM] = "sum", [PROD] = "prod", [MAX] = "max", [MIN] = "min"};
static const char *const types_not_here[] = {"half", "bfloat16", "f8e4m3", "f8e5m2"};
static const char *const ops_not_here[] = {"avg", "mulsum"};

const char *dtype_name(enum dtype type) { return types[type].name; }
size_t dtype_size(enum dtype type) { return types[type].size; }
const char *redop_name(enum redop op) { return ops[op]; }

static int is_one_of(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0) return 1;
    return 0;
}

int dtype_named(const char *name) {
    if (strcmp(name, "all") == 0) return ALL;
    for (int i = 0; i < DTYPES; i++)
        if (strcmp(name, types[i].name) == 0) return i;
    return is_one_of(name, types_not_here, sizeof types_not_here / sizeof *types_not_here) ? UNSUPPORTED : UNKNOWN;
}

int redop_named(const char *name) {
    if (strcmp(name, "all") == 0) return ALL;
    for (int i = 0; i < REDOPS; i++)
        if (strcmp(name, ops[i]) == 0) return i;
    return is_one_of(name, ops_not_here, sizeof ops_not_here / sizeof *ops_not_here) ? UNSUPPORTED : UNKNOWN;
}

/* Sums and products of signed integers run in the unsigned type of the same width: they wrap, where signed overflow would be undefined. */
#define LOOP(T, EXPRESSION)                                   \
    do {                                                      \
        T *to = into;                                         \
        const T *left_of = left, *right_of = right;           \
        for (size_t i = 0; i < count; i++) {                  \
            T a = left_of[i], b = right_of[i];                \
            to[i] = (T)(EXPRESSION);                          \
        }                                                     \
    } while (0)

#define REDUCTIONS(NAME, T, WRAPPING)                                                                         \
    static void NAME(void *into, const void *left, const void *right, size_t count, enum redop op) {          \
        switch (op) {                                                                                         \
        case SUM: LOOP(WRAPPING, a + b); break;                                                               \
        case PROD: LOOP(WRAPPING, a * b); break;                                                              \
        case MAX: LOOP(T, a > b ? a : b); break;                                                              \
        case MIN: LOOP(T, a < b ? a : b); break;                                                              \
        case REDOPS: break;                                                                                   \
        }                                                                                                     \
    }

REDUCTIONS(reduce_int8, int8_t, uint8_t)
REDUCTIONS(reduce_uint8, uint8_t, uint8_t)
REDUCTIONS(reduce_int32, int32_t, uint32_t)
REDUCTIONS(reduce_uint32, uint32_t, uint32_t)
REDUCTIONS(reduce_int64, int64_t, uint64_t)
REDUCTIONS(reduce_uint64, uint64_t, uint64_t)
REDUCTIONS(reduce_float, float, float)
REDUCTIONS(reduce_double, double, double)

void reduce(void *into, const void *left, const void *right, size_t count, enum dtype type, enum redop op) {
    switch (type) {
    case INT8: reduce_int8(into, left, right, count, op); break;
    case UINT8: reduce_uint8(into, left, right, count, op); break;
    case INT32: reduce_int32(into, left, right, count, op); break;
    case UINT32: reduce_uint32(into, left, right, count, op); break;
    case INT64: reduce_int64(into, left, right, count, op); break;
    case UINT64: reduce_uint64(into, left, right, count, op); break;
    case FLOAT: reduce_float(into, left, right, count, op); break;
    case DOUBLE: reduce_double(into, left, right, count, op); break;
    case DTYPES: break;
    }
}
