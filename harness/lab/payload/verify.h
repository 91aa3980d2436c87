/* The data that is sent, and what must have arrived. */
#ifndef PAYLOAD_VERIFY_H
#define PAYLOAD_VERIFY_H

#include "collectives.h"

/* One verified run of a collective. `round` changes the data from one run to the next, so that what is left of an earlier run is wrong. */
struct exercise {
    enum collective_id id;
    const struct group *group;
    struct counts counts; /* elements */
    enum dtype type;
    enum redop op;
    int root, round;
};

/* Fills this rank's input. */
void verify_fill(const struct exercise *exercise, void *input);

/* How many elements of this rank's result are not what they must be, to the bit. */
long long verify_wrong(const struct exercise *exercise, const void *result);

#endif
