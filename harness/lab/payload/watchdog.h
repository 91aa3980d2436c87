/* -T: ends the process when communication takes longer than allowed. */
#ifndef PAYLOAD_WATCHDOG_H
#define PAYLOAD_WATCHDOG_H

/* Starts the watching thread; with timeout_s 0 there is none. */
void watchdog_start(int timeout_s, const char *host);

/* Around each stretch of communication. It is ended from another thread, because this one may be inside MPI. */
void watchdog_arm(void);
void watchdog_disarm(void);

#endif
