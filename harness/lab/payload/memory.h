/* Memory, or the end: there is no measurement without its buffers. */
#ifndef PAYLOAD_MEMORY_H
#define PAYLOAD_MEMORY_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "exit_codes.h"

static inline void *memory_or_exit(size_t bytes) {
    void *memory = malloc(bytes == 0 ? 1 : bytes);
    if (memory == NULL) {
        fprintf(stderr, "out of host memory: %zu bytes requested\n", bytes);
        exit(EXIT_MEMORY);
    }
    return memory;
}

#endif
