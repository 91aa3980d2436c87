#include "placement.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

void host_name(char *host) {
    const char *emulated = getenv("LAB_NODE"); /* where the lab cannot give a node a host name of its own */
    if (emulated != NULL && emulated[0] != '\0') snprintf(host, HOST_LENGTH, "%s", emulated);
    else if (gethostname(host, HOST_LENGTH) != 0) snprintf(host, HOST_LENGTH, "unknown");
    host[HOST_LENGTH - 1] = '\0';
    host[strcspn(host, ".")] = '\0';
}

/* A decimal, 0x or 0b number. */
static bool parse_number(const char *text, long *number) {
    while (isspace((unsigned char)*text)) text++;
    bool binary = strncasecmp(text, "0b", 2) == 0;
    char *end;
    const char *digits = binary ? text + 2 : text;
    *number = strtol(digits, &end, binary ? 2 : 0);
    return end != digits;
}

int split_colour(int job_rank) {
    static const char *const operators[][2] = {{"AND", "&"}, {"OR", "|"}, {"MOD", "%"}, {"DIV", "/"}};
    const char *mask = getenv("NCCL_TESTS_SPLIT_MASK"), *split = getenv("NCCL_TESTS_SPLIT");
    if (mask != NULL) return job_rank & (int)strtoul(mask, NULL, 16);
    for (int i = 0; split != NULL && i < 4; i++) {
        for (int spelling = 0; spelling < 2; spelling++) {
            const char *name = operators[i][spelling];
            long value;
            if (strncasecmp(split, name, strlen(name)) != 0 || !parse_number(split + strlen(name), &value)) continue;
            if (i == 0) return job_rank & (int)value;
            if (i == 1) return job_rank | (int)value;
            if (value > 0) return i == 2 ? job_rank % (int)value : job_rank / (int)value;
        }
    }
    if (split != NULL && job_rank == 0) fprintf(stderr, "NCCL_TESTS_SPLIT=%s is not understood: one group\n", split);
    return 0;
}

int local_rank(const struct place *places, int job_rank) {
    int before = 0;
    for (int p = 0; p < job_rank; p++) before += strcmp(places[p].host, places[job_rank].host) == 0;
    return before;
}

int local_size(const struct place *places, int job_size, int job_rank) {
    int same = 0;
    for (int p = 0; p < job_size; p++) same += strcmp(places[p].host, places[job_rank].host) == 0;
    return same;
}

/* The node of the group's member: the number of an earlier member of the same host, else the next number. */
static int node_of(const struct place *places, const struct group *group, int member) {
    const char *host = places[group->job_rank[member]].host;
    for (int other = 0; other < member; other++)
        if (strcmp(places[group->job_rank[other]].host, host) == 0) return group->node[other];
    return group->nodes;
}

static int ranks_on_every_node(const struct group *group) {
    int *ranks = calloc((size_t)group->nodes, sizeof *ranks);
    for (int member = 0; member < group->size; member++) ranks[group->node[member]]++;
    int same = ranks[0];
    for (int node = 1; node < group->nodes; node++)
        if (ranks[node] != same) same = 0;
    free(ranks);
    return same;
}

/* Node after node; inside a node the ranks in order, beginning with the channel's own. */
static void lay_ring(const struct group *group, int channel, int *order) {
    int position = 0;
    for (int node = 0; node < group->nodes; node++) {
        int first = position;
        for (int member = 0; member < group->size; member++)
            if (group->node[member] == node) order[position++] = member;
        int ranks = position - first;
        int turned[ranks];
        for (int i = 0; i < ranks; i++) turned[i] = order[first + (i + channel) % ranks];
        memcpy(order + first, turned, sizeof turned);
    }
}

struct group group_make(const struct place *places, int job_size, int job_rank) {
    struct group group = {0};
    group.job_rank = malloc((size_t)job_size * sizeof(int));
    group.node = malloc((size_t)job_size * sizeof(int));
    group.rail = malloc((size_t)job_size * sizeof(int));
    for (int p = 0; p < job_size; p++) {
        if (places[p].colour != places[job_rank].colour) continue;
        int member = group.size++;
        if (p == job_rank) group.rank = member;
        group.job_rank[member] = p;
        group.rail[member] = places[p].rail;
        group.railed |= group.rail[member] != group.rail[0];
        group.node[member] = node_of(places, &group, member);
        if (group.node[member] == group.nodes) group.nodes++;
    }
    group.per_node = ranks_on_every_node(&group);
    group.channels = group.nodes > 1 && group.per_node > 1 ? group.per_node : 1;
    if (group.channels > CHANNELS_MAX) group.channels = CHANNELS_MAX;
    group.order = malloc((size_t)group.channels * (size_t)group.size * sizeof(int));
    for (int channel = 0; channel < group.channels; channel++)
        lay_ring(&group, channel, group.order + (size_t)channel * (size_t)group.size);
    return group;
}

void group_free(struct group *group) {
    free(group->job_rank);
    free(group->node);
    free(group->rail);
    free(group->order);
}

int relay_between(const struct group *group, int from, int to) {
    if (group->node[from] == group->node[to] || group->rail[from] == group->rail[to]) return NO_RELAY;
    for (int member = 0; member < group->size; member++)
        if (group->node[member] == group->node[from] && group->rail[member] == group->rail[to]) return member;
    return NO_RELAY;
}
