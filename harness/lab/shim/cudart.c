/* A CUDA runtime on host memory, as far as nccl-tests needs one: no GPU is there and none is claimed. Everything is done when the call returns.
 *
 * Kernels are known by the names that the program registers; the three that prepare and verify float sums are done here in C, on values that
 * any order of adding leaves exact. Any other kernel, and CUDA graphs, are refused. Built as libcudart.so.<major>; written against CUDA 13.0.
 */
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KERNELS 4096
#define VALUES 61 /* of an input, from 0: sums stay exact in a float up to 2^18 ranks */

static struct { const void *host; const char *name; } kernels[KERNELS];
static int registered, device;
static __thread struct { dim3 grid, block; size_t shared; cudaStream_t stream; } pushed;
static __thread cudaError_t last = cudaSuccess;

static cudaError_t told(cudaError_t error) {
    if (error != cudaSuccess) last = error;
    return error;
}

/* --- what the compiler puts into every program */
void **__cudaRegisterFatBinary(void *binary) { return (void **)binary; }
void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
void __cudaUnregisterFatBinary(void **handle) { (void)handle; }
char __cudaInitModule(void **handle) { return handle != NULL; }
void __cudaRegisterVar(void **h, char *a, char *b, const char *c, int d, size_t e, int f, int g) { (void)h, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g; }
void __cudaRegisterFunction(void **h, const char *host, char *f, const char *name, int limit, uint3 *a, uint3 *b, dim3 *c, dim3 *d, int *e) {
    (void)h, (void)f, (void)limit, (void)a, (void)b, (void)c, (void)d, (void)e;
    if (registered < KERNELS) kernels[registered].host = host, kernels[registered++].name = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream) {
    pushed.grid = grid, pushed.block = block, pushed.shared = shared, pushed.stream = stream;
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    *grid = pushed.grid, *block = pushed.block, *shared = pushed.shared, *(cudaStream_t *)stream = pushed.stream;
    return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host) { *kernel = (cudaKernel_t)host; return cudaSuccess; }
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream) {
    return cudaLaunchKernel((const void *)kernel, grid, block, args, shared, stream);
}
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream) {
    return cudaLaunchKernel((const void *)kernel, grid, block, args, shared, stream);
}

/* --- devices */
static int devices(void) {
    const char *said = getenv("LAB_NGPU");
    return said && atoi(said) > 0 ? atoi(said) : 8;
}
cudaError_t cudaGetDeviceCount(int *count) { *count = devices(); return cudaSuccess; }
cudaError_t cudaSetDevice(int number) { return number < devices() ? (device = number, cudaSuccess) : told(cudaErrorInvalidDevice); }
cudaError_t cudaGetDevice(int *number) { *number = device; return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int number) {
    memset(prop, 0, sizeof *prop);
    snprintf(prop->name, sizeof prop->name, "host memory (emulated, no GPU)");
    prop->totalGlobalMem = (size_t)1 << 30, prop->pciBusID = number + 1, prop->major = 9, prop->multiProcessorCount = 1;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int number) {
    (void)number;
    *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }
cudaError_t cudaDeviceReset(void) { return cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t *unused, size_t *all) { *unused = *all = (size_t)1 << 30; return cudaSuccess; }
cudaError_t cudaGetLastError(void) { cudaError_t was = last; last = cudaSuccess; return was; }
cudaError_t cudaPeekAtLastError(void) { return last; }
const char *cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : error == cudaErrorNotSupported ? "not done without a GPU" : "failed on host memory"; }
const char *cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "cudaError"; }

/* --- memory */
cudaError_t cudaMalloc(void **memory, size_t bytes) { return posix_memalign(memory, 4096, bytes ? bytes : 1) == 0 ? cudaSuccess : told(cudaErrorMemoryAllocation); }
cudaError_t cudaFree(void *memory) { free(memory); return cudaSuccess; }
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags) { (void)flags; return cudaMalloc(memory, bytes); }
cudaError_t cudaMallocHost(void **memory, size_t bytes) { return cudaMalloc(memory, bytes); }
cudaError_t cudaFreeHost(void *memory) { return cudaFree(memory); }
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) { (void)kind; memmove(to, from, bytes); return cudaSuccess; }
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t s) { (void)s; return cudaMemcpy(to, from, bytes, kind); }
cudaError_t cudaMemset(void *memory, int value, size_t bytes) { memset(memory, value, bytes); return cudaSuccess; }
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t s) { (void)s; return cudaMemset(memory, value, bytes); }

/* --- streams, events, graphs */
cudaError_t cudaStreamCreate(cudaStream_t *s) { *s = (cudaStream_t)malloc(1); return cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags) { (void)flags; return cudaStreamCreate(s); }
cudaError_t cudaStreamDestroy(cudaStream_t s) { free(s); return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t s) { (void)s; return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t s) { (void)s; return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags) { (void)s, (void)e, (void)flags; return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t *e) { *e = (cudaEvent_t)calloc(1, sizeof(struct timespec)); return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags) { (void)flags; return cudaEventCreate(e); }
cudaError_t cudaEventDestroy(cudaEvent_t e) { free(e); return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) { (void)s; clock_gettime(CLOCK_MONOTONIC, (struct timespec *)e); return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t e) { (void)e; return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t e) { (void)e; return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    const struct timespec *a = (struct timespec *)from, *b = (struct timespec *)to;
    *ms = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) * 1e-6);
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode m) { (void)s, (void)m; return told(cudaErrorNotSupported); }
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g) { (void)s, (void)g; return told(cudaErrorNotSupported); }
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *e, cudaGraph_t g, unsigned long long f) { (void)e, (void)g, (void)f; return told(cudaErrorNotSupported); }
cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t s) { (void)e, (void)s; return told(cudaErrorNotSupported); }
cudaError_t cudaGraphDestroy(cudaGraph_t g) { (void)g; return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e) { (void)e; return cudaSuccess; }

/* --- the kernels of nccl-tests' verifiable.cu, for floats added up */
static float input(uint64_t seed, intptr_t element, int rank) {
    uint64_t x = seed + (uint64_t)element * 0x9E3779B97F4A7C15u + (uint64_t)rank * 0xC2B2AE3D27D4EB4Fu;
    x = (x ^ (x >> 31)) * 0xD6E8FEB86659FD93u;
    return (float)((x >> 40) % VALUES);
}

static cudaError_t prepare_input(void **args) {
    float *out = *(float **)args[0];
    intptr_t count = *(intptr_t *)args[1], first = *(intptr_t *)args[6];
    int rank = *(int *)args[4];
    uint64_t seed = *(uint64_t *)args[5];
    for (intptr_t i = 0; i < count; i++) out[i] = input(seed, first + i, rank);
    return cudaSuccess;
}

static cudaError_t prepare_expected(void **args) {
    float *out = *(float **)args[0];
    intptr_t count = *(intptr_t *)args[1], first = *(intptr_t *)args[5];
    int ranks = *(int *)args[3];
    uint64_t seed = *(uint64_t *)args[4];
    for (intptr_t i = 0; i < count; i++) {
        out[i] = 0;
        for (int rank = 0; rank < ranks; rank++) out[i] += input(seed, first + i, rank);
    }
    return cudaSuccess;
}

static cudaError_t verify(void **args) {
    const uint32_t *got = *(uint32_t **)args[0], *wanted = *(uint32_t **)args[1];
    intptr_t count = *(intptr_t *)args[2];
    unsigned tolerance = *(unsigned *)args[3];
    int64_t *bad = *(int64_t **)args[4];
    for (intptr_t i = 0; i < count; i++) *bad += (got[i] < wanted[i] ? wanted[i] - got[i] : got[i] - wanted[i]) > tolerance;
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream) {
    (void)grid, (void)block, (void)shared, (void)stream;
    const char *name = "";
    for (int i = 0; i < registered; i++)
        if (kernels[i].host == host) name = kernels[i].name;
    int adds = strstr(name, "ReduceSum") || strstr(name, "ReduceNil");
    if (strstr(name, "prepareInput2If") && adds) return prepare_input(args);
    if (strstr(name, "prepareExpected2If") && adds) return prepare_expected(args);
    if (strstr(name, "verifyPreparedIj")) return verify(args);
    fprintf(stderr, "emulated CUDA: %s is not done without a GPU, only float and sum\n", name[0] ? name : "an unknown kernel");
    return told(cudaErrorNotSupported);
}
