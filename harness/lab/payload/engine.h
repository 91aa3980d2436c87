/* Moves the messages of a collective: lanes that send and receive step by step, and relays that pass messages on. */
#ifndef PAYLOAD_ENGINE_H
#define PAYLOAD_ENGINE_H

#include <stddef.h>

/* What one lane moves in one step. NULL: nothing in that direction. An empty message is a message. */
struct transfer {
    const char *send;
    char *recv;
    size_t send_bytes, recv_bytes;
};

/* One chain of dependent steps with fixed neighbours. A step begins when both messages of the one before are through, so a lane never
 * overtakes itself; lanes run at the same time and independently of one another. */
struct operation;
struct lane {
    int send_to, recv_from; /* ranks of the job */
    int send_tag, recv_tag;
    int steps;
    struct transfer (*plan)(const struct lane *lane, int step);
    void (*finish)(const struct lane *lane, int step); /* after both messages are through; NULL: nothing to do */

    /* for plan and finish */
    const struct operation *operation;
    int index;         /* which lane of the operation */
    int position;      /* where this rank stands in the lane's ring; the root of a chain stands at 0 */
    const int *order;  /* the ranks of the group along the ring */
    char *scratch[2];  /* each as large as the lane's largest message */

    /* used by the engine */
    int step;
    int under_way; /* messages of this step */
    char *flipped; /* the byte that LAB_CORRUPT changed, to be restored once it is sent */
};

/* A rank between two others that have no rail in common: passes on so many messages, one at a time. */
struct relay {
    int from, to; /* ranks of the job */
    int recv_tag, send_tag;
    int lane; /* its index */
    int messages;
    char *buffer;
    size_t capacity; /* bytes of the largest message */

    /* used by the engine */
    int sending;
};

/* Returns when every lane has done its steps and every relay has passed on its messages. corrupt: flip a byte of each message sent. */
void engine_run(struct lane *lanes, int lane_count, struct relay *relays, int relay_count, int corrupt);

#endif
