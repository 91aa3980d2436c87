#include "watchdog.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "exit_codes.h"
#include "record.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct timespec armed_at;
static int armed, limit_s;
static const char *host_in_messages;

static double seconds_since(const struct timespec *then) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - then->tv_sec) + 1e-9 * (double)(now.tv_nsec - then->tv_nsec);
}

/* The lock is never given back: the main thread must not go on writing while the process ends. MPI is left as it is, and exit handlers are
 * not run, because the main thread may hold any lock of the MPI library. */
static void end_process(void) {
    printf("%s: Test timeout (%ds) %s:%d\n", host_in_messages, limit_s, __FILE__, __LINE__);
    TRACE_FAILURE(host_in_messages);
    fflush(stdout);
    record_abandon();
    _exit(EXIT_TIMEOUT);
}

static void *watch(void *unused) {
    const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
    for (;;) {
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&lock);
        if (armed && seconds_since(&armed_at) > limit_s) end_process();
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

void watchdog_start(int timeout_s, const char *host) {
    limit_s = timeout_s;
    host_in_messages = host;
    pthread_t thread;
    if (timeout_s > 0 && pthread_create(&thread, NULL, watch, NULL) != 0) {
        fprintf(stderr, "%s: -T needs a second thread, and none could be started\n", host);
        exit(EXIT_INTERNAL);
    }
}

void watchdog_arm(void) {
    if (limit_s == 0) return;
    pthread_mutex_lock(&lock);
    armed = 1;
    clock_gettime(CLOCK_MONOTONIC, &armed_at);
    pthread_mutex_unlock(&lock);
}

void watchdog_disarm(void) {
    if (limit_s == 0) return;
    pthread_mutex_lock(&lock);
    armed = 0;
    pthread_mutex_unlock(&lock);
}
