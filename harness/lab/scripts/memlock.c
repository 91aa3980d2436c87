/* Loaded into the sessions of nodes with invented hardware: a limit of locked memory that nobody lowered is shown as none at all. */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static int asked(int resource, struct rlimit *limit)
{
    int status = (int)syscall(SYS_prlimit64, 0, resource, NULL, limit);
    if (status == 0 && resource == RLIMIT_MEMLOCK && limit->rlim_cur == limit->rlim_max)
        limit->rlim_cur = RLIM_INFINITY;
    return status;
}

int getrlimit(__rlimit_resource_t resource, struct rlimit *limit)
{
    return asked(resource, limit);
}

int getrlimit64(__rlimit_resource_t resource, struct rlimit64 *limit)
{
    return asked(resource, (struct rlimit *)limit);
}
