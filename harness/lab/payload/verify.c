#include "verify.h"

#include <stdint.h>
#include <string.h>

/* Every value is an integer that any order of adding leaves exact in a float (24 bits): the largest sum is n * 15 + 4 * sum of weights, and
 * the weights, 1..251, average 126: exact up to 32 000 ranks. Integer types take it modulo their width. Products are of powers of two. */
static uint32_t weight(int rank) { return (uint32_t)rank % 251 + 1; }

static uint32_t mix(uint64_t index, uint32_t seed) {
    uint32_t x = (uint32_t)index ^ (uint32_t)(index >> 32) * 0x9e3779b1u ^ seed * 0x85ebca6bu;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

#define FILL(T, VALUE)                                         \
    do {                                                       \
        T *values = to;                                        \
        for (size_t i = 0; i < count; i++) {                   \
            uint32_t x = mix(first + i, seed);                 \
            values[i] = (T)(VALUE);                            \
        }                                                      \
    } while (0)

#define FILL_TYPE(INTEGER, FLOATING)                           \
    switch (type) {                                            \
    case INT8: case UINT8: FILL(uint8_t, INTEGER); break;      \
    case INT32: case UINT32: FILL(uint32_t, INTEGER); break;   \
    case INT64: case UINT64: FILL(uint64_t, INTEGER); break;   \
    case FLOAT: FILL(float, FLOATING); break;                  \
    case DOUBLE: FILL(double, FLOATING); break;                \
    case DTYPES: break;                                        \
    }

/* What a rank adds to a sum, or offers to a maximum or minimum: offset + factor * weight, both drawn per element. */
static void fill_term(void *to, size_t first, size_t count, enum dtype type, uint32_t seed, uint64_t offsets, uint64_t weights) {
    FILL_TYPE(((x & 15) * offsets + (1 + (x >> 4 & 3)) * weights), ((x & 15) * offsets + (1 + (x >> 4 & 3)) * weights))
}

/* What a rank multiplies by: plus or minus one, and for some elements two on even and one half on odd ranks (integers: an odd number). */
static void fill_factor(void *to, size_t first, size_t count, enum dtype type, uint32_t seed, int rank) {
    double power = rank % 2 ? 0.5 : 2;
    uint32_t odd = 2 * weight(rank) + 1;
    FILL_TYPE((x & 2 ? odd : 1), ((x & 1 ? -1 : 1) * (x & 2 ? power : 1)))
}

/* What a rank sends unreduced: any odd number of 24 bits, so never the zero that buffers are cleared to. */
static void fill_message(void *to, size_t first, size_t count, enum dtype type, int source, int round) {
    uint32_t seed = (uint32_t)round * 1000003u + (uint32_t)source + 1;
    FILL_TYPE((x >> 8 | 1), (x >> 8 | 1))
}

static void fill_contribution(void *to, size_t first, size_t count, const struct exercise *e, int rank) {
    if (e->op == PROD) fill_factor(to, first, count, e->type, (uint32_t)e->round, rank);
    else fill_term(to, first, count, e->type, (uint32_t)e->round, 1, weight(rank));
}

enum { BATCH = 4096 }; /* elements compared at a time */

/* A sum has a closed form; the other operators are folded over all ranks. */
static void fill_reduced(void *to, size_t first, size_t count, const struct exercise *e) {
    if (e->op == SUM) {
        uint64_t weights = 0;
        for (int rank = 0; rank < e->group->size; rank++) weights += weight(rank);
        fill_term(to, first, count, e->type, (uint32_t)e->round, (uint64_t)e->group->size, weights);
        return;
    }
    static _Alignas(16) char other[BATCH * sizeof(double)];
    fill_contribution(to, first, count, e, 0);
    for (int rank = 1; rank < e->group->size; rank++) {
        fill_contribution(other, first, count, e, rank);
        reduce(to, to, other, count, e->type, e->op);
    }
}

void verify_fill(const struct exercise *e, void *input) {
    int rank = e->group->rank;
    if (collectives[e->id].reduces) fill_contribution(input, 0, e->counts.send, e, rank);
    else if (e->id != BROADCAST || rank == e->root) fill_message(input, 0, e->counts.send, e->type, rank, e->round);
}

/* A run of elements of the result: `first` is their index in the sender's buffer, or in the reduced whole. */
struct part {
    int source; /* rank that sent them; REDUCED: all of them */
    size_t first, count;
};
enum { REDUCED = -1 };

static struct part part_of(const struct exercise *e, int index) {
    int n = e->group->size, rank = e->group->rank;
    size_t param = e->counts.param;
    switch (e->id) {
    case ALL_REDUCE: return (struct part){REDUCED, 0, param};
    case REDUCE_SCATTER: return (struct part){REDUCED, (size_t)rank * param, param};
    case ALL_GATHER: return (struct part){index, 0, param};
    case ALLTOALL: return (struct part){index, (size_t)rank * param, param};
    case BROADCAST: return (struct part){e->root, 0, param};
    default: return (struct part){(rank - 1 + n) % n, 0, param};
    }
}

static long long wrong_in_batch(const char *expected, const char *found, size_t count, size_t element) {
    long long wrong = 0;
    if (memcmp(expected, found, count * element) == 0) return 0;
    for (size_t i = 0; i < count; i++) wrong += memcmp(expected + i * element, found + i * element, element) != 0;
    return wrong;
}

long long verify_wrong(const struct exercise *e, const void *result) {
    static _Alignas(16) char expected[BATCH * sizeof(double)];
    const char *found = result;
    size_t element = dtype_size(e->type);
    int parts = e->id == ALL_GATHER || e->id == ALLTOALL ? e->group->size : 1;
    long long wrong = 0;
    for (int index = 0; index < parts; index++) {
        struct part part = part_of(e, index);
        for (size_t done = 0; done < part.count; done += BATCH) {
            size_t count = part.count - done < BATCH ? part.count - done : BATCH;
            if (part.source == REDUCED) fill_reduced(expected, part.first + done, count, e);
            else fill_message(expected, part.first + done, count, e->type, part.source, e->round);
            wrong += wrong_in_batch(expected, found, count, element);
            found += count * element;
        }
    }
    return wrong;
}
