#include "rails.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exit_codes.h"
#include "job.h"
#include "memory.h"

struct stream {
    int job_rank, lane; /* the peer */
    int socket;
};
struct streams {
    struct stream *all;
    int count;
};

/* What the connecting end says first. */
struct greeting {
    int job_rank, lane;
};

static const struct place *place_of;
static int my_rank, listening;
static char interface[IFNAMSIZ];
static struct sockaddr_in my_address, *addresses; /* addresses: where each process of the job listens */
static struct streams outgoing, incoming;

static void fail(const char *doing, const char *with, const char *why) {
    printf("%s: Test network failure %s:%d '%s %s on %s: %s'\n", place_of[my_rank].host, __FILE__, __LINE__, doing, with, interface, why);
    TRACE_FAILURE(place_of[my_rank].host);
    fflush(stdout);
    exit(EXIT_COMMUNICATION);
}

static void require(bool good, const char *doing) {
    if (!good) fail(doing, "the rail", strerror(errno));
}

int rails_wanted(void) {
    const char *rails = getenv("LAB_RAILS"), *wanted = getenv("LAB_RAIL_BY_LOCAL_RANK");
    if (rails == NULL || rails[0] == '\0' || wanted == NULL || strcmp(wanted, "1") != 0) return 0;
    int count = 1;
    for (const char *c = rails; *c != '\0'; c++) count += *c == ',';
    return count;
}

static void name_interface(int rail) {
    const char *start = getenv("LAB_RAILS");
    for (; rail > 0; rail--) start = strchr(start, ',') + 1;
    snprintf(interface, sizeof interface, "%.*s", (int)strcspn(start, ","), start);
}

static void find_address(void) {
    struct ifaddrs *list = NULL;
    require(getifaddrs(&list) == 0, "getifaddrs");
    for (struct ifaddrs *i = list; i != NULL; i = i->ifa_next)
        if (i->ifa_addr != NULL && i->ifa_addr->sa_family == AF_INET && strcmp(i->ifa_name, interface) == 0)
            memcpy(&my_address, i->ifa_addr, sizeof my_address);
    freeifaddrs(list);
    if (my_address.sin_family != AF_INET) fail("listening", "for peers", "no such interface, or no IPv4 address");
}

void rails_start(const struct place *places, int job_size, int job_rank) {
    place_of = places;
    my_rank = job_rank;
    name_interface(places[job_rank].rail);
    find_address();
    my_address.sin_port = 0;
    listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t length = sizeof my_address;
    require(listening >= 0 && bind(listening, (struct sockaddr *)&my_address, length) == 0 && listen(listening, 4096) == 0, "listening");
    getsockname(listening, (struct sockaddr *)&my_address, &length);
    addresses = memory_or_exit((size_t)job_size * sizeof *addresses);
    job_allgather(&my_address, addresses, sizeof my_address);
}

bool rails_carry(int job_rank) {
    if (addresses == NULL) return false;
    const struct place *mine = &place_of[my_rank], *other = &place_of[job_rank];
    return mine->rail == other->rail && strcmp(mine->host, other->host) != 0;
}

static int find(const struct streams *streams, int job_rank, int lane) {
    for (int i = 0; i < streams->count; i++)
        if (streams->all[i].job_rank == job_rank && streams->all[i].lane == lane) return streams->all[i].socket;
    return NOT_CONNECTED;
}

static void keep(struct streams *streams, int job_rank, int lane, int socket) {
    int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    require(fcntl(socket, F_SETFL, O_NONBLOCK) == 0, "setting up");
    streams->all = realloc(streams->all, (size_t)(streams->count + 1) * sizeof *streams->all);
    if (streams->all == NULL) exit(EXIT_MEMORY);
    streams->all[streams->count++] = (struct stream){job_rank, lane, socket};
}

int rails_stream_to(int job_rank, int lane) {
    int found = find(&outgoing, job_rank, lane);
    if (found >= 0) return found;
    struct sockaddr_in from = my_address;
    from.sin_port = 0;
    struct greeting greeting = {my_rank, lane};
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = made >= 0 && bind(made, (struct sockaddr *)&from, sizeof from) == 0 &&
                connect(made, (struct sockaddr *)&addresses[job_rank], sizeof from) == 0 &&
                send(made, &greeting, sizeof greeting, MSG_NOSIGNAL) == sizeof greeting;
    if (!good) fail("connecting to", place_of[job_rank].host, strerror(errno));
    keep(&outgoing, job_rank, lane, made);
    return made;
}

int rails_stream_from(int job_rank, int lane) {
    int found;
    while ((found = find(&incoming, job_rank, lane)) < 0) {
        int accepted = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
        if (accepted < 0 && (errno == EAGAIN || errno == EINTR)) return NOT_CONNECTED;
        struct greeting greeting;
        bool good = accepted >= 0 && recv(accepted, &greeting, sizeof greeting, MSG_WAITALL) == sizeof greeting;
        if (!good) fail("accepting", place_of[job_rank].host, strerror(errno));
        keep(&incoming, greeting.job_rank, greeting.lane, accepted);
    }
    return found;
}

static const char *peer_of(int stream) {
    for (int i = 0; i < outgoing.count; i++)
        if (outgoing.all[i].socket == stream) return place_of[outgoing.all[i].job_rank].host;
    for (int i = 0; i < incoming.count; i++)
        if (incoming.all[i].socket == stream) return place_of[incoming.all[i].job_rank].host;
    return "a peer";
}

size_t rails_move(int stream, bool sending, char *at, size_t bytes) {
    ssize_t moved = sending ? send(stream, at, bytes, MSG_NOSIGNAL) : recv(stream, at, bytes, 0);
    if (moved > 0) return (size_t)moved;
    if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    fail(sending ? "sending to" : "receiving from", peer_of(stream), moved == 0 ? "connection closed by the peer" : strerror(errno));
    return 0;
}
