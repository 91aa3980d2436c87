#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine.h"

/* Slots of the request array: lane i owns 2i (its send) and 2i+1 (its receive); the relays follow, one slot each. */
struct engine {
    struct lane *lanes;
    struct relay *relays;
    int lane_count, relay_count;
    int unfinished;
    bool corrupt;
    MPI_Request *requests;
};

static void start_send(struct engine *e, int i, const struct transfer *t) {
    struct lane *lane = &e->lanes[i];
    if (e->corrupt && t->send_bytes > 0) {
        /* The last byte of the first eight or fewer: for every type it is a whole element's most significant byte. */
        lane->flipped = (char *)(uintptr_t)t->send + (t->send_bytes < 8 ? t->send_bytes : 8) - 1;
        *lane->flipped ^= 0x7f;
    }
    MPI_Isend(t->send, (int)t->send_bytes, MPI_BYTE, lane->send_to, lane->send_tag, MPI_COMM_WORLD, &e->requests[2 * i]);
}

/* Starts the lane's current step, or the first one after it that moves something. */
static void start_step(struct engine *e, int i) {
    struct lane *lane = &e->lanes[i];
    for (; lane->step < lane->steps; lane->step++) {
        struct transfer t = lane->plan(lane, lane->step);
        if (t.recv != NULL)
            MPI_Irecv(t.recv, (int)t.recv_bytes, MPI_BYTE, lane->recv_from, lane->recv_tag, MPI_COMM_WORLD, &e->requests[2 * i + 1]);
        if (t.send != NULL) start_send(e, i, &t);
        lane->under_way = (t.recv != NULL) + (t.send != NULL);
        if (lane->under_way > 0) return;
    }
    e->unfinished--;
}

static void lane_progressed(struct engine *e, int slot) {
    int i = slot / 2;
    struct lane *lane = &e->lanes[i];
    if (slot % 2 == 0 && lane->flipped != NULL) {
        *lane->flipped ^= 0x7f;
        lane->flipped = NULL;
    }
    if (--lane->under_way > 0) return;
    if (lane->finish != NULL) lane->finish(lane, lane->step);
    lane->step++;
    start_step(e, i);
}

static void relay_receive(struct engine *e, int i) {
    struct relay *relay = &e->relays[i];
    if (relay->messages == 0) {
        e->unfinished--;
        return;
    }
    relay->sending = false;
    MPI_Irecv(relay->buffer, (int)relay->capacity, MPI_BYTE, relay->from, relay->recv_tag, MPI_COMM_WORLD, &e->requests[2 * e->lane_count + i]);
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
    MPI_Isend(relay->buffer, bytes, MPI_BYTE, relay->to, relay->send_tag, MPI_COMM_WORLD, &e->requests[2 * e->lane_count + i]);
}

void engine_run(struct lane *lanes, int lane_count, struct relay *relays, int relay_count, int corrupt) {
    int slots = 2 * lane_count + relay_count;
    MPI_Request requests[slots];
    MPI_Status statuses[slots];
    int completed[slots];
    struct engine e = {lanes, relays, lane_count, relay_count, lane_count + relay_count, corrupt, requests};
    for (int i = 0; i < slots; i++) requests[i] = MPI_REQUEST_NULL;
    for (int i = 0; i < relay_count; i++) relay_receive(&e, i);
    for (int i = 0; i < lane_count; i++) start_step(&e, i);
    while (e.unfinished > 0) {
        int count;
        MPI_Waitsome(slots, requests, &count, completed, statuses);
        for (int i = 0; i < count; i++) {
            if (completed[i] < 2 * lane_count) lane_progressed(&e, completed[i]);
            else relay_progressed(&e, completed[i] - 2 * lane_count, &statuses[i]);
        }
    }
}
