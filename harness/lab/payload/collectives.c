#include "collectives.h"

#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "lanes.h"
#include "memory.h"

const struct collective collectives[COLLECTIVES] = {
    [ALL_REDUCE] = {"all_reduce", .reduces = true, .names_op = true, .checks_in_place = true},
    [ALL_GATHER] = {"all_gather", .split_by_rank = true, .checks_in_place = true},
    [REDUCE_SCATTER] = {"reduce_scatter", .reduces = true, .names_op = true, .split_by_rank = true, .checks_in_place = true},
    [ALLTOALL] = {"alltoall", .split_by_rank = true},
    [BROADCAST] = {"broadcast", .has_root = true, .checks_in_place = true},
    [SENDRECV] = {"sendrecv", .names_op = true},
};

enum collective_id collective_named(const char *name) {
    int id = 0;
    while (id < COLLECTIVES && strcmp(collectives[id].name, name) != 0) id++;
    return (enum collective_id)id;
}

struct counts collective_counts(enum collective_id id, size_t bytes, size_t element, int ranks) {
    size_t count = bytes / element, n = (size_t)ranks;
    if (!collectives[id].split_by_rank) return (struct counts){count, count, count, 0, 0};
    size_t part = count / n / (16 / element) * (16 / element); /* whole multiples of 16 bytes a rank, as nccl-tests >= 2.13.12 */
    switch (id) {
    case ALL_GATHER: return (struct counts){part, part * n, part, part, 0};
    case REDUCE_SCATTER: return (struct counts){part * n, part, part, 0, part};
    default: return (struct counts){part * n, part * n, part, 0, 0};
    }
}

double collective_bus_factor(enum collective_id id, int ranks) {
    double n = ranks;
    switch (id) {
    case ALL_REDUCE: return 2 * (n - 1) / n;
    case ALL_GATHER:
    case REDUCE_SCATTER:
    case ALLTOALL: return (n - 1) / n;
    default: return 1;
    }
}

/* Blocks: one a rank, whose sizes differ by one element at most. A lane has the same share of every block. */
static size_t block_start(const struct operation *o, int rank) {
    return (size_t)((unsigned __int128)o->total * (unsigned)rank / (unsigned)o->group->size);
}

static size_t share(const struct operation *o, const struct lane *lane, int rank, size_t *count) {
    size_t start = block_start(o, rank), length = block_start(o, rank + 1) - start;
    size_t first = length * (size_t)lane->index / (size_t)o->lanes, last = length * (size_t)(lane->index + 1) / (size_t)o->lanes;
    *count = last - first;
    return start + first;
}

/* The rank that stands so many places before this one in the lane's ring. */
static int before(const struct lane *lane, int places) {
    int n = lane->operation->group->size;
    return lane->order[((lane->position - places) % n + n) % n];
}

/* Reduce-scatter round the ring: in step s a rank passes on the partial sum that it made in step s-1, and receives the partial sum of the
 * block before that one. After n-1 steps the block that arrives is its own. */
static struct transfer reduce_plan(const struct lane *lane, int step) {
    const struct operation *o = lane->operation;
    size_t sent, received, start = share(o, lane, before(lane, step + 1), &sent);
    share(o, lane, before(lane, step + 2), &received);
    const char *partial = step == 0 ? o->in + start * o->element : lane->scratch[(step + 1) % 2];
    return (struct transfer){partial, lane->scratch[step % 2], sent * o->element, received * o->element};
}

static void reduce_finish(const struct lane *lane, int step) {
    const struct operation *o = lane->operation;
    size_t count, start = share(o, lane, before(lane, step + 2), &count);
    char *partial = lane->scratch[step % 2];
    bool own = step == o->group->size - 2;
    char *into = own ? o->own_block + (start - block_start(o, o->group->rank)) * o->element : partial;
    reduce(into, partial, o->in + start * o->element, count, o->type, o->op);
}

/* All-gather round the ring: in step s a rank passes on the block that it received in step s-1, beginning with its own. */
static struct transfer gather_plan(const struct lane *lane, int step) {
    const struct operation *o = lane->operation;
    size_t sent, received;
    size_t from = share(o, lane, before(lane, step), &sent), to = share(o, lane, before(lane, step + 1), &received);
    return (struct transfer){o->out + from * o->element, o->out + to * o->element, sent * o->element, received * o->element};
}

static struct transfer all_reduce_plan(const struct lane *lane, int step) {
    int reducing = lane->operation->group->size - 1;
    return step < reducing ? reduce_plan(lane, step) : gather_plan(lane, step - reducing);
}

static void all_reduce_finish(const struct lane *lane, int step) {
    if (step < lane->operation->group->size - 1) reduce_finish(lane, step);
}

/* Pieces: what a lane moves between two neighbours, cut so that a relay or the next in the chain can pass one on while the next arrives. */
static size_t piece(const struct operation *o, const struct lane *lane, int index, size_t *bytes) {
    size_t first = o->total * (size_t)lane->index / (size_t)o->lanes, last = o->total * (size_t)(lane->index + 1) / (size_t)o->lanes;
    size_t start = (last - first) * (size_t)index / (size_t)o->pieces, end = (last - first) * (size_t)(index + 1) / (size_t)o->pieces;
    *bytes = (end - start) * o->element;
    return (first + start) * o->element;
}

/* A chain along the ring, the root at position 0: a rank receives a piece while it passes on the one before. */
static struct transfer broadcast_plan(const struct lane *lane, int step) {
    const struct operation *o = lane->operation;
    bool first = lane->position == 0, last = lane->position == o->group->size - 1;
    int sent = first ? step : step - 1;
    struct transfer t = {0};
    if (!last && sent >= 0 && sent < o->pieces) t.send = o->out + piece(o, lane, sent, &t.send_bytes);
    if (!first && step < o->pieces) t.recv = o->out + piece(o, lane, step, &t.recv_bytes);
    return t;
}

static struct transfer exchange_plan(const struct lane *lane, int step) {
    const struct operation *o = lane->operation;
    struct transfer t = {0};
    size_t start = piece(o, lane, step, &t.send_bytes);
    t.recv_bytes = t.send_bytes;
    t.send = o->in + start;
    t.recv = o->out + start;
    return t;
}

/* Sends to the rank `shift` after this one and receives from the rank `shift` before it. */
static void exchange(struct operation o, int shift, const char *in, char *out, size_t count) {
    o.shift = shift;
    o.in = in;
    o.out = out;
    o.total = count;
    lanes_run(&o, exchange_plan, NULL);
}

/* Pairs: in round s every rank sends to the rank s after it. */
static void run_alltoall(const struct operation *o, size_t count) {
    int n = o->group->size, rank = o->group->rank;
    size_t bytes = count * o->element;
    memcpy(o->out + (size_t)rank * bytes, o->in + (size_t)rank * bytes, bytes);
    for (int shift = 1; shift < n; shift++) {
        size_t to = (size_t)((rank + shift) % n), from = (size_t)((rank - shift + n) % n);
        exchange(*o, shift, o->in + to * bytes, o->out + from * bytes, count);
    }
}

/* alltoall and sendrecv cannot work in place: the input is copied away first, and the copy is part of the time. */
static const char *apart(const void *in, const void *out, size_t bytes) {
    static char *copy;
    static size_t capacity;
    if (in != out) return in;
    if (copy == NULL || bytes > capacity) { /* NULL would mean that nothing is sent */
        free(copy);
        copy = memory_or_exit(bytes);
        capacity = bytes;
    }
    memcpy(copy, in, bytes);
    return copy;
}

static void run_over_rings(enum collective_id id, struct operation *o, size_t count, int root) {
    const struct group *g = o->group;
    size_t n = (size_t)g->size, own = (size_t)g->rank * count * o->element, all = n * count;
    switch (id) {
    case ALL_REDUCE:
        o->total = count;
        o->own_block = o->out + block_start(o, g->rank) * o->element;
        o->steps = 2 * (g->size - 1);
        if (n == 1 && o->in != o->out) memcpy(o->out, o->in, count * o->element);
        lanes_run(o, all_reduce_plan, all_reduce_finish);
        break;
    case ALL_GATHER:
        o->total = all;
        o->steps = g->size - 1;
        if (o->in != o->out + own) memcpy(o->out + own, o->in, count * o->element);
        lanes_run(o, gather_plan, NULL);
        break;
    case REDUCE_SCATTER:
        o->total = all;
        o->own_block = o->out;
        o->steps = g->size - 1;
        if (n == 1 && o->in != o->out) memcpy(o->out, o->in, count * o->element);
        lanes_run(o, reduce_plan, reduce_finish);
        break;
    case ALLTOALL:
        o->in = apart(o->in, o->out, all * o->element);
        run_alltoall(o, count);
        break;
    case BROADCAST:
        o->total = count;
        o->root = root;
        if (g->rank == root && o->in != o->out) memcpy(o->out, o->in, count * o->element);
        lanes_run(o, broadcast_plan, NULL);
        break;
    case SENDRECV:
        o->in = apart(o->in, o->out, count * o->element);
        if (n == 1) memcpy(o->out, o->in, count * o->element);
        exchange(*o, 1, o->in, o->out, count);
        break;
    case COLLECTIVES: break;
    }
}

void collective_run(enum collective_id id, const struct group *group, const void *in, void *out, size_t count, enum dtype type,
                    enum redop op, int root, struct settings settings) {
    if (settings.tuned && id != SENDRECV) {
        job_tuned(id, group, in, out, count, type, op, root);
        return;
    }
    struct operation o = {.group = group, .in = in, .out = out, .type = type, .op = op, .element = dtype_size(type), .root = NO_ROOT,
                          .corrupt = settings.corrupt};
    run_over_rings(id, &o, count, root);
}
