/* Exit codes, as nccl-tests 2.19.6 gives them to the launcher. */
#ifndef PAYLOAD_EXIT_CODES_H
#define PAYLOAD_EXIT_CODES_H

enum exit_code {
    EXIT_OK = 0,               /* also -h and any unknown option */
    EXIT_INTERNAL = 1,
    EXIT_MEMORY = 2,           /* nccl-tests: CUDA error; here: host memory could not be had */
    EXIT_COMMUNICATION = 3,    /* nccl-tests: NCCL error; here: MPI error */
    EXIT_TIMEOUT = 4,          /* -T */
    EXIT_NOT_IMPLEMENTED = 5,  /* also too few GPUs */
    EXIT_INVALID_USAGE = 6,
    EXIT_RESULTS = 7,          /* wrong data, or slower than NCCL_TESTS_MIN_BW allows */
    EXIT_ARGUMENT = 255
};

/* One line per level on stdout, as nccl-tests leaves its trace. */
#define TRACE_FAILURE(host) printf(" .. %s pid %d: Test failure %s:%d\n", (host), (int)getpid(), __FILE__, __LINE__)

#endif
