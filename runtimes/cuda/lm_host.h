/* The host shim: what generated CUDA C++ needs to be compiled by a host compiler and run on the CPU.
 *
 *     c++ -x c++ -std=c++17 -DLM_HOST -include lm_host.h kernel.cu
 *
 * A launch runs every block, and in it every thread, one after another, in an order that differs from the
 * hardware's on purpose (a full-period stride through the indices): a kernel whose threads depend on one
 * another's order gives a different answer here. It says nothing about speed.
 */
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

struct lm_dim3 { unsigned x, y, z; };
static thread_local lm_dim3 threadIdx, blockIdx, blockDim, gridDim;

typedef void *cudaStream_t;
typedef int cudaError_t;
enum { cudaSuccess = 0, cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
static inline cudaError_t cudaMallocAsync(void **p, size_t n, cudaStream_t) { *p = malloc(n); return *p ? 0 : 2; }
static inline cudaError_t cudaFreeAsync(void *p, cudaStream_t) { free(p); return 0; }
static inline cudaError_t cudaMemsetAsync(void *p, int v, size_t n, cudaStream_t) { memset(p, v, n); return 0; }
static inline cudaError_t cudaMemcpyAsync(void *d, const void *s, size_t n, int, cudaStream_t) { memcpy(d, s, n); return 0; }
template <class T> static inline cudaError_t cudaMemcpyFromSymbolAsync(void *d, const T &s, size_t n, size_t, int, cudaStream_t) { memcpy(d, &s, n); return 0; }
template <class T> static inline cudaError_t cudaMemcpyToSymbolAsync(T &d, const void *s, size_t n, size_t, int, cudaStream_t) { memcpy(&d, s, n); return 0; }
static inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return 0; }
static inline cudaError_t cudaGetLastError(void) { return 0; }

static inline uint64_t lm_gcd(uint64_t a, uint64_t b) { while (b) { uint64_t t = a % b; a = b; b = t; } return a; }
/* A stride that visits each of n indices once. */
static inline uint64_t lm_stride(uint64_t n) { uint64_t s = n / 2 + n / 8 + 1; while (lm_gcd(s, n) != 1) s++; return s; }

template <class F> static void lm_run(lm_dim3 grid, lm_dim3 block, F kernel) {
    gridDim = grid; blockDim = block;
    uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z, threads = (uint64_t)block.x * block.y * block.z;
    if (!blocks || !threads) return;
    uint64_t bs = lm_stride(blocks), ts = lm_stride(threads), b = blocks / 2;
    for (uint64_t i = 0; i < blocks; i++, b = (b + bs) % blocks) {
        blockIdx = {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y), (unsigned)(b / grid.x / grid.y)};
        uint64_t t = threads / 2;
        for (uint64_t j = 0; j < threads; j++, t = (t + ts) % threads) {
            threadIdx = {(unsigned)(t % block.x), (unsigned)(t / block.x % block.y), (unsigned)(t / block.x / block.y)};
            kernel();
        }
    }
}
#define LM_LAUNCH(kernel, gx, gy, gz, tx, ty, tz, stream, ...) \
    lm_run({(unsigned)(gx), (unsigned)(gy), (unsigned)(gz)}, {(unsigned)(tx), (unsigned)(ty), (unsigned)(tz)}, [=] { kernel(__VA_ARGS__); })

/* Device math by its CUDA names. */
static inline float __int_as_float(int32_t x) { float y; memcpy(&y, &x, 4); return y; }
static inline int32_t __float_as_int(float x) { int32_t y; memcpy(&y, &x, 4); return y; }
static inline double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }
static inline long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }
template <class T> static inline T atomicOr(T *p, T v) { T old = *p; *p |= v; return old; }
template <class T> static inline T atomicMax(T *p, T v) { T old = *p; if (v > old) *p = v; return old; }
