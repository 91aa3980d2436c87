#include <mpi.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "rails.h"

enum { IDLE_MS = 100 };

/* One message under way over a rail. A message over MPI is the request of the same number. */
struct slot {
    bool busy, sending;
    int peer, lane, stream; /* stream may be NOT_CONNECTED while receiving */
    char *at;
    size_t left;
};

/* Lane i owns slots 2i (its send) and 2i+1 (its receive); the relays follow, one slot each. */
struct engine {
    struct lane *lanes;
    struct relay *relays;
    int lane_count, relay_count, slot_count;
    int unfinished; /* lanes and relays */
    int over_mpi;   /* messages */
    bool corrupt;
    MPI_Request *requests;
    struct slot *slots;
};

static void post(struct engine *e, int number, bool sending, int peer, int lane, int tag, char *at, size_t bytes) {
    struct slot *slot = &e->slots[number];
    if (rails_carry(peer)) {
        *slot = (struct slot){true, sending, peer, lane, sending ? rails_stream_to(peer, lane) : NOT_CONNECTED, at, bytes};
        return;
    }
    e->over_mpi++;
    if (sending) MPI_Isend(at, (int)bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &e->requests[number]);
    else MPI_Irecv(at, (int)bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &e->requests[number]);
}

/* Flips the last byte of the first eight or fewer: for every type it is the most significant byte of an element. */
static void corrupt(struct lane *lane, const struct transfer *t) {
    lane->flipped = (char *)(uintptr_t)t->send + (t->send_bytes < 8 ? t->send_bytes : 8) - 1;
    *lane->flipped ^= 0x7f;
}

/* Starts the lane's current step, or the first one after it that moves something. */
static void start_step(struct engine *e, int i) {
    struct lane *lane = &e->lanes[i];
    for (; lane->step < lane->steps; lane->step++) {
        struct transfer t = lane->plan(lane, lane->step);
        lane->under_way = (t.recv != NULL) + (t.send != NULL);
        if (e->corrupt && t.send != NULL && t.send_bytes > 0) corrupt(lane, &t);
        if (t.send != NULL) post(e, 2 * i, true, lane->send_to, lane->index, lane->send_tag, (char *)(uintptr_t)t.send, t.send_bytes);
        if (t.recv != NULL) post(e, 2 * i + 1, false, lane->recv_from, lane->index, lane->recv_tag, t.recv, t.recv_bytes);
        if (lane->under_way > 0) return;
    }
    e->unfinished--;
}

static void lane_progressed(struct engine *e, int number) {
    struct lane *lane = &e->lanes[number / 2];
    if (number % 2 == 0 && lane->flipped != NULL) {
        *lane->flipped ^= 0x7f;
        lane->flipped = NULL;
    }
    if (--lane->under_way > 0) return;
    if (lane->finish != NULL) lane->finish(lane, lane->step);
    lane->step++;
    start_step(e, number / 2);
}

/* A relay receives from its own node, so always over MPI, which tells the size of the message. */
static void relay_receive(struct engine *e, int i) {
    struct relay *relay = &e->relays[i];
    relay->sending = false;
    if (relay->messages == 0) {
        e->unfinished--;
        return;
    }
    post(e, 2 * e->lane_count + i, false, relay->from, relay->lane, relay->recv_tag, relay->buffer, relay->capacity);
}

static void relay_progressed(struct engine *e, int i, MPI_Status *status) {
    struct relay *relay = &e->relays[i];
    if (relay->sending) {
        relay->messages--;
        relay_receive(e, i);
        return;
    }
    int bytes;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    relay->sending = true;
    post(e, 2 * e->lane_count + i, true, relay->to, relay->lane, relay->send_tag, relay->buffer, (size_t)bytes);
}

static void progressed(struct engine *e, int number, MPI_Status *status) {
    if (number < 2 * e->lane_count) lane_progressed(e, number);
    else relay_progressed(e, number - 2 * e->lane_count, status);
}

/* Moves what can be moved on the rails; false when nothing could. */
static bool serve_rails(struct engine *e) {
    bool moved = false;
    for (int number = 0; number < e->slot_count; number++) {
        struct slot *slot = &e->slots[number];
        if (!slot->busy) continue;
        if (slot->stream == NOT_CONNECTED) slot->stream = rails_stream_from(slot->peer, slot->lane);
        if (slot->stream == NOT_CONNECTED) continue;
        size_t bytes = slot->left > 0 ? rails_move(slot->stream, slot->sending, slot->at, slot->left) : 0;
        slot->at += bytes;
        slot->left -= bytes;
        moved |= bytes > 0 || slot->left == 0;
        if (slot->left > 0) continue;
        slot->busy = false;
        progressed(e, number, NULL);
    }
    return moved;
}

/* Serves MPI: waits for it where nothing else is under way. */
static bool serve_mpi(struct engine *e, bool wait) {
    int count = 0, completed[e->slot_count];
    MPI_Status statuses[e->slot_count];
    if (wait) MPI_Waitsome(e->slot_count, e->requests, &count, completed, statuses);
    else MPI_Testsome(e->slot_count, e->requests, &count, completed, statuses);
    if (count == MPI_UNDEFINED) return false;
    e->over_mpi -= count;
    for (int i = 0; i < count; i++) progressed(e, completed[i], &statuses[i]);
    return count > 0;
}

/* Lets others have the processor: sleeps until a rail is ready, but MPI and a connection that is still to come cannot be slept on. */
static void rest(const struct engine *e) {
    struct pollfd waits[e->slot_count];
    nfds_t count = 0;
    bool awake = e->over_mpi > 0;
    for (const struct slot *slot = e->slots; slot < e->slots + e->slot_count; slot++) {
        if (!slot->busy) continue;
        awake |= slot->stream == NOT_CONNECTED;
        waits[count++] = (struct pollfd){slot->stream, slot->sending ? POLLOUT : POLLIN, 0};
    }
    if (awake) sched_yield();
    else poll(waits, count, IDLE_MS);
}

static bool rails_busy(const struct engine *e) {
    for (const struct slot *slot = e->slots; slot < e->slots + e->slot_count; slot++)
        if (slot->busy) return true;
    return false;
}

void engine_run(struct lane *lanes, int lane_count, struct relay *relays, int relay_count, int corrupted) {
    int slot_count = 2 * lane_count + relay_count;
    MPI_Request requests[slot_count];
    struct slot slots[slot_count];
    struct engine e = {lanes, relays, lane_count, relay_count, slot_count, lane_count + relay_count, 0, corrupted, requests, slots};
    for (int i = 0; i < slot_count; i++) {
        requests[i] = MPI_REQUEST_NULL;
        slots[i].busy = false;
    }
    for (int i = 0; i < relay_count; i++) relay_receive(&e, i);
    for (int i = 0; i < lane_count; i++) start_step(&e, i);
    while (e.unfinished > 0) {
        bool busy = rails_busy(&e);
        bool moved = busy && serve_rails(&e);
        if (e.over_mpi > 0) moved |= serve_mpi(&e, !busy);
        if (!moved && e.unfinished > 0) rest(&e);
    }
}
