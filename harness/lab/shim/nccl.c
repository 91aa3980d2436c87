/* NCCL's host interface over MPI, as far as nccl-tests needs one: real messages between the memories of hosts, no GPU, none of NCCL's own
 * algorithms, and none of its log lines. Calls return when their data have arrived. Built as libnccl.so.2 against NCCL's public header.
 *
 * LAB_RAILS (`eth0,eth1`) names the links that carry the data; LAB_CORRUPT=RANK makes that rank's sums wrong by one bit.
 */
#include <mpi.h>
#include <nccl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct ncclComm { MPI_Comm comm; int rank, ranks; };

/* Before the program's MPI_Init: Open MPI takes its interfaces from the environment. */
__attribute__((constructor)) static void choose_rails(void) {
    const char *rails = getenv("LAB_RAILS");
    if (rails && *rails) setenv("OMPI_MCA_btl_tcp_if_include", rails, 1);
}

static MPI_Datatype type_of(ncclDataType_t type) {
    switch (type) {
    case ncclInt8: return MPI_INT8_T;
    case ncclUint8: return MPI_UINT8_T;
    case ncclInt32: return MPI_INT32_T;
    case ncclUint32: return MPI_UINT32_T;
    case ncclInt64: return MPI_INT64_T;
    case ncclUint64: return MPI_UINT64_T;
    case ncclFloat32: return MPI_FLOAT;
    case ncclFloat64: return MPI_DOUBLE;
    default: return MPI_DATATYPE_NULL;
    }
}
static MPI_Op op_of(ncclRedOp_t op) { return op == ncclSum ? MPI_SUM : op == ncclProd ? MPI_PROD : op == ncclMin ? MPI_MIN : op == ncclMax ? MPI_MAX : MPI_OP_NULL; }
static ncclResult_t done(int code) { return code == MPI_SUCCESS ? ncclSuccess : ncclSystemError; }
static int possible(MPI_Datatype type, MPI_Op op) { return type != MPI_DATATYPE_NULL && op != MPI_OP_NULL; }
static void *in_place(const void *from, const void *to) { return from == to ? MPI_IN_PLACE : (void *)(uintptr_t)from; }
static void corrupt(ncclComm_t c, void *data, size_t count) {
    const char *said = getenv("LAB_CORRUPT");
    if (said && atoi(said) == c->rank && count) *(uint32_t *)data ^= 1u << 20;
}

ncclResult_t ncclGetVersion(int *version) { *version = NCCL_VERSION_CODE; return ncclSuccess; }
const char *ncclGetErrorString(ncclResult_t r) { return r == ncclSuccess ? "no error" : r == ncclInvalidUsage ? "not done without a GPU" : "MPI failed"; }
const char *ncclGetLastError(ncclComm_t c) { (void)c; return ""; }
ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    int rank;
    memset(id, 0, sizeof *id);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    memcpy(id->internal, &rank, sizeof rank);
    return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t *c, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
    int color;
    (void)config;
    memcpy(&color, id.internal, sizeof color);
    if (!(*c = calloc(1, sizeof **c))) return ncclSystemError;
    (*c)->rank = rank, (*c)->ranks = ranks;
    /* All processes make their communicator at the same moment, each group with the id of one of its own. */
    return done(MPI_Comm_split(MPI_COMM_WORLD, color, rank, &(*c)->comm));
}
ncclResult_t ncclCommInitRank(ncclComm_t *c, int ranks, ncclUniqueId id, int rank) { return ncclCommInitRankConfig(c, ranks, id, rank, NULL); }
ncclResult_t ncclCommDestroy(ncclComm_t c) { free(c); return ncclSuccess; }
ncclResult_t ncclCommFinalize(ncclComm_t c) { (void)c; return ncclSuccess; }
ncclResult_t ncclCommAbort(ncclComm_t c) { MPI_Abort(c->comm, 3); return ncclSuccess; }
ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *r) { (void)c; *r = ncclSuccess; return ncclSuccess; }
ncclResult_t ncclCommCount(const ncclComm_t c, int *n) { *n = c->ranks; return ncclSuccess; }
ncclResult_t ncclCommUserRank(const ncclComm_t c, int *n) { *n = c->rank; return ncclSuccess; }
ncclResult_t ncclCommCuDevice(const ncclComm_t c, int *n) { (void)c; *n = 0; return ncclSuccess; }
ncclResult_t ncclMemAlloc(void **memory, size_t bytes) { return posix_memalign(memory, 4096, bytes ? bytes : 1) == 0 ? ncclSuccess : ncclSystemError; }
ncclResult_t ncclMemFree(void *memory) { free(memory); return ncclSuccess; }
ncclResult_t ncclCommRegister(const ncclComm_t c, void *b, size_t n, void **h) { (void)c, (void)n; *h = b; return ncclSuccess; }
ncclResult_t ncclCommDeregister(const ncclComm_t c, void *h) { (void)c, (void)h; return ncclSuccess; }
/* Sends and receives of a group are all under way before the first is waited for. */
static MPI_Request *waiting;
static int pending, depth;
static ncclResult_t settle(void) {
    int code = MPI_Waitall(pending, waiting, MPI_STATUSES_IGNORE);
    pending = 0;
    return done(code);
}
static MPI_Request *next(void) {
    waiting = realloc(waiting, sizeof *waiting * (size_t)(pending + 1));
    if (!waiting) abort();
    return waiting + pending++;
}
ncclResult_t ncclGroupStart(void) { depth++; return ncclSuccess; }
ncclResult_t ncclGroupEnd(void) { return --depth ? ncclSuccess : settle(); }

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t c, cudaStream_t s) {
    (void)s;
    if (!possible(type_of(type), op_of(op)) || count > INT32_MAX) return ncclInvalidUsage;
    ncclResult_t result = done(MPI_Allreduce(in_place(from, to), to, (int)count, type_of(type), op_of(op), c->comm));
    corrupt(c, to, count);
    return result;
}
ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t c, cudaStream_t s) {
    (void)s;
    if (!possible(type_of(type), op_of(op)) || count > INT32_MAX) return ncclInvalidUsage;
    int width;
    MPI_Type_size(type_of(type), &width);
    /* In place is NCCL's: each rank's part of its own input, which MPI has no name for. */
    int own = (const char *)to == (const char *)from + (size_t)c->rank * count * (size_t)width;
    void *out = own ? malloc(count * (size_t)width + 1) : to;
    if (!out) return ncclSystemError;
    ncclResult_t result = done(MPI_Reduce_scatter_block(from, out, (int)count, type_of(type), op_of(op), c->comm));
    if (own) memcpy(to, out, count * (size_t)width), free(out);
    corrupt(c, to, count);
    return result;
}
ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t c, cudaStream_t s) {
    (void)s;
    if (type_of(type) == MPI_DATATYPE_NULL || count > INT32_MAX) return ncclInvalidUsage;
    int width;
    MPI_Type_size(type_of(type), &width);
    int own = (const char *)from == (char *)to + (size_t)c->rank * count * (size_t)width;
    return done(MPI_Allgather(own ? MPI_IN_PLACE : from, (int)count, type_of(type), to, (int)count, type_of(type), c->comm));
}
ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t c, cudaStream_t s) {
    (void)s;
    int width;
    if (type_of(type) == MPI_DATATYPE_NULL || count > INT32_MAX) return ncclInvalidUsage;
    MPI_Type_size(type_of(type), &width);
    if (c->rank == root && from != to) memcpy(to, from, count * (size_t)width);
    return done(MPI_Bcast(to, (int)count, type_of(type), root, c->comm));
}
ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t s) {
    (void)s;
    if (type_of(type) == MPI_DATATYPE_NULL || count > INT32_MAX) return ncclInvalidUsage;
    int code = MPI_Isend(from, (int)count, type_of(type), peer, 0, c->comm, next());
    return code != MPI_SUCCESS || depth ? done(code) : settle();
}
ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t s) {
    (void)s;
    if (type_of(type) == MPI_DATATYPE_NULL || count > INT32_MAX) return ncclInvalidUsage;
    int code = MPI_Irecv(to, (int)count, type_of(type), peer, 0, c->comm, next());
    return code != MPI_SUCCESS || depth ? done(code) : settle();
}
