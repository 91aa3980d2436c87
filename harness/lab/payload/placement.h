/* Where processes run: nodes, local ranks, rails, and the groups that NCCL_TESTS_SPLIT makes. */
#ifndef PAYLOAD_PLACEMENT_H
#define PAYLOAD_PLACEMENT_H

#include <stdbool.h>

enum { HOST_LENGTH = 64, NO_RAIL = -1, NO_RELAY = -1 };

#define CHANNELS_MAX 32

/* What every process tells the others. */
struct place {
    char host[HOST_LENGTH]; /* cut at the first dot */
    int rail;               /* index into LAB_RAILS, or NO_RAIL */
    int colour;             /* of NCCL_TESTS_SPLIT */
};

/* The processes that run one collective together. Arrays are indexed by rank in the group. */
struct group {
    int rank, size;
    int *job_rank;
    int *node; /* numbered in order of first appearance */
    int *rail;
    int nodes;
    int per_node; /* ranks on every node, 0 where nodes differ */
    bool railed;  /* members have different rails: some pairs need a relay */
    int channels; /* rings that differ in the rank at which they enter a node: channel c enters at the node's c-th rank */
    int *order;   /* order[channel * size + position] = rank in the group */
};

void host_name(char *host);
int split_colour(int job_rank);

/* How many processes before this one run on the same node. */
int local_rank(const struct place *places, int job_rank);
int local_size(const struct place *places, int job_size, int job_rank);

struct group group_make(const struct place *places, int job_size, int job_rank);
void group_free(struct group *group);

/* The rank of from's node that has the rail of `to` and passes messages on, or NO_RELAY where the two can talk directly. */
int relay_between(const struct group *group, int from, int to);

#endif
