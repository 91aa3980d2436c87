/* What an nccl-tests may link to and the lab does not do: refused where it is called. Without NCCL's header, whose types it does not need. */
#define REFUSED(name) int name(void) { return 5; /* ncclInvalidUsage */ }
REFUSED(ncclCommQueryProperties)
REFUSED(ncclRedOpCreatePreMulSum)
REFUSED(ncclRedOpDestroy)
REFUSED(ncclTeamLsa)
REFUSED(ncclReduce)
REFUSED(ncclAlltoAll)
REFUSED(ncclGather)
REFUSED(ncclScatter)
