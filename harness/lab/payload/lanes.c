#include "lanes.h"

#include "memory.h"

/* Two lanes a channel: while one waits for its neighbour, reduces, or goes through a relay, the other keeps the wire busy. */
enum { LANES_PER_CHANNEL = 2, LANES_MAX = CHANNELS_MAX * LANES_PER_CHANNEL, CACHE_LINE = 64 };
static const size_t lane_message_min = 4 << 10;   /* under it a further lane costs more than it brings */
static const size_t second_lane_min = 32 << 10;
static const size_t piece_bytes = 128 << 10;      /* a chain of ranks fills soon, and a message still costs more than its handshake */
static const size_t message_max = 1 << 30;        /* MPI counts are int */

static size_t at_least_one(size_t value) { return value > 0 ? value : 1; }

static int lanes_for(size_t bytes, int channels) {
    size_t wanted = (size_t)channels;
    if (bytes >= wanted * LANES_PER_CHANNEL * second_lane_min) wanted *= LANES_PER_CHANNEL;
    else if (bytes < wanted * lane_message_min) wanted = at_least_one(bytes / lane_message_min);
    if (bytes / wanted > message_max) wanted = bytes / message_max + 1;
    return wanted > LANES_MAX ? LANES_MAX : (int)wanted;
}

/* Scratch is kept from one operation to the next: mapping fresh pages would be timed as communication. */
static char *scratch_take(size_t bytes) {
    static char *scratch;
    static size_t capacity;
    if (bytes > capacity) {
        free(scratch);
        scratch = memory_or_exit(bytes);
        capacity = bytes;
    }
    return scratch;
}

/* The job's rank to talk to on the way from one member to another: the relay's where there is one. */
static int first_stop(const struct group *g, int from, int to) {
    int relay = relay_between(g, from, to);
    return g->job_rank[relay == NO_RELAY ? to : relay];
}

static int last_stop(const struct group *g, int from, int to) {
    int relay = relay_between(g, from, to);
    return g->job_rank[relay == NO_RELAY ? from : relay];
}

/* A message to a relay and a message to its destination carry different tags: a relay is the neighbour of other ranks itself. */
static int tag(int lane, bool to_relay) { return 2 * lane + to_relay; }

static void lay_lane(const struct operation *o, struct lane *lane, int index) {
    const struct group *g = o->group;
    int n = g->size, place = 0, root_place = 0;
    lane->operation = o;
    lane->index = index;
    lane->order = g->order + (size_t)(index % g->channels) * (size_t)n;
    while (lane->order[place] != g->rank) place++;
    if (o->root != NO_ROOT)
        while (lane->order[root_place] != o->root) root_place++;
    lane->position = (place - root_place + n) % n;
    int next = o->shift > 0 ? (g->rank + o->shift) % n : lane->order[(place + 1) % n];
    int previous = o->shift > 0 ? (g->rank - o->shift + n) % n : lane->order[(place - 1 + n) % n];
    lane->send_to = first_stop(g, g->rank, next);
    lane->recv_from = last_stop(g, previous, g->rank);
    lane->send_tag = tag(index, lane->send_to != g->job_rank[next]);
    lane->recv_tag = tag(index, false);
}

/* The relays of one lane that this rank is. */
static int lay_relays(const struct operation *o, const struct lane *lane, int messages, struct relay *relays) {
    const struct group *g = o->group;
    int found = 0;
    for (int i = 0; i < g->size; i++) {
        int from = o->shift > 0 ? i : lane->order[i];
        int to = o->shift > 0 ? (i + o->shift) % g->size : lane->order[(i + 1) % g->size];
        if (to == o->root || relay_between(g, from, to) != g->rank) continue; /* a chain does not return to its root */
        relays[found++] = (struct relay){.from = g->job_rank[from], .to = g->job_rank[to], .recv_tag = tag(lane->index, true),
                                         .send_tag = tag(lane->index, false), .lane = lane->index, .messages = messages};
    }
    return found;
}

void lanes_run(struct operation *o, struct transfer (*plan)(const struct lane *, int), void (*finish)(const struct lane *, int)) {
    const struct group *g = o->group;
    if (g->size == 1) return;
    bool blocks = o->steps > 0;
    size_t message = o->total / (blocks ? (size_t)g->size : 1) * o->element;
    o->lanes = lanes_for(message, o->shift > 0 ? 1 : g->channels);
    size_t lane_bytes = message / (size_t)o->lanes, limit = o->root != NO_ROOT || g->railed ? piece_bytes : message_max;
    o->pieces = blocks ? 1 : (int)at_least_one((lane_bytes + limit - 1) / limit);
    /* Cutting blocks, shares and pieces rounds up by an element each; every buffer begins at a cache line. */
    size_t largest = (lane_bytes / (size_t)o->pieces + 4 * o->element + CACHE_LINE) / CACHE_LINE * CACHE_LINE;

    struct lane lanes[LANES_MAX] = {0};
    struct relay *relays = g->railed ? memory_or_exit((size_t)o->lanes * (size_t)g->size * sizeof *relays) : NULL;
    int relay_count = 0, messages = blocks ? o->steps : o->pieces;
    for (int i = 0; i < o->lanes; i++) {
        lay_lane(o, &lanes[i], i);
        lanes[i].plan = plan;
        lanes[i].finish = finish;
        lanes[i].steps = blocks ? o->steps : o->pieces + (o->root != NO_ROOT);
        if (g->railed) relay_count += lay_relays(o, &lanes[i], messages, relays + relay_count);
    }
    char *scratch = scratch_take(((size_t)o->lanes * 2 + (size_t)relay_count) * largest);
    for (int i = 0; i < o->lanes; i++)
        for (int half = 0; half < 2; half++, scratch += largest) lanes[i].scratch[half] = scratch;
    for (int i = 0; i < relay_count; i++, scratch += largest) {
        relays[i].buffer = scratch;
        relays[i].capacity = largest;
    }
    engine_run(lanes, o->lanes, relays, relay_count, o->corrupt);
    free(relays);
}
