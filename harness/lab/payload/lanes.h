/* Lays a collective out on lanes: how many, over which rings, through which relays. */
#ifndef PAYLOAD_LANES_H
#define PAYLOAD_LANES_H

#include <stdbool.h>
#include <stddef.h>

#include "dtype.h"
#include "collectives.h"
#include "engine.h"
#include "placement.h"



/* One collective under way on this rank.
 * steps > 0: blocks go round the rings. root >= 0: pieces go down a chain along the rings. Otherwise pieces go from each rank to the one
 * `shift` after it. */
struct operation {
    const struct group *group;
    const char *in;
    char *out;
    char *own_block; /* where the reduced block of this rank goes */
    size_t total;    /* elements that the lanes share */
    size_t element;  /* bytes */
    enum dtype type;
    enum redop op;
    int steps, root, shift;
    bool corrupt;

    /* set by lanes_run */
    int lanes, pieces;
};

/* Returns when this rank's part is done. Nothing happens in a group of one. */
void lanes_run(struct operation *operation, struct transfer (*plan)(const struct lane *, int), void (*finish)(const struct lane *, int));

#endif
