/* Rails: messages between nodes over chosen network interfaces, one rail a process.
 *
 * MPI cannot do it: Open MPI picks interfaces per process and needs every pair of processes connected for its own barriers, so a process
 * bound to its rail cannot reach one on another rail. As NCCL does, MPI starts the job and the rails carry the data, each over TCP sockets
 * bound to its interface. */
#ifndef PAYLOAD_RAILS_H
#define PAYLOAD_RAILS_H

#include <stdbool.h>
#include <stddef.h>

#include "placement.h"

/* How many rails LAB_RAILS names; 0 unless LAB_RAIL_BY_LOCAL_RANK=1. */
int rails_wanted(void);

/* Listens on this process's rail and learns where the others listen. Collective over the job; ends the process where the interface has no
 * IPv4 address. */
void rails_start(const struct place *places, int job_size, int job_rank);

/* Do messages between this process and that one go over a rail? They do between nodes, where both have the same rail. */
bool rails_carry(int job_rank);

/* The stream of one lane to a process, connected when first asked for. Sockets do not block. */
int rails_stream_to(int job_rank, int lane);

/* The stream of one lane from a process, or NOT_CONNECTED as long as that has not asked for it. */
enum { NOT_CONNECTED = -1 };
int rails_stream_from(int job_rank, int lane);

/* Moves what the socket takes or has; returns the bytes moved, 0 when it is not ready. Ends the process when the peer is gone. */
size_t rails_move(int stream, bool sending, char *at, size_t bytes);

#endif
