/* Element types and reduction operators. */
#ifndef PAYLOAD_DTYPE_H
#define PAYLOAD_DTYPE_H

#include <stddef.h>

enum dtype { INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT, DOUBLE, DTYPES };
enum redop { SUM, PROD, MAX, MIN, REDOPS };

#define ALL (-1)         /* "-d all", "-o all" */
#define UNKNOWN (-2)     /* no such name in nccl-tests */
#define UNSUPPORTED (-3) /* a name of nccl-tests that the payload does not have */

const char *dtype_name(enum dtype type);
size_t dtype_size(enum dtype type);
const char *redop_name(enum redop op);

/* The type or operator of that name, or ALL, UNKNOWN, UNSUPPORTED. */
int dtype_named(const char *name);
int redop_named(const char *name);

/* into[i] = left[i] op right[i]; into may be left or right. */
void reduce(void *into, const void *left, const void *right, size_t count, enum dtype type, enum redop op);

#endif
