/* The host shim: what generated CUDA C++ needs to be compiled by a host compiler and run on the CPU.
 *
 *     c++ -x c++ -std=c++17 -DLM_HOST -include lm_host.h kernel.cu
 *
 * A launch runs its blocks one after another, and in a block one thread after another, in an order that a seed chooses (a stride through the
 * indices that visits each once): a kernel that depends on the order of its threads gives another answer with another seed.  A thread that comes to
 * __syncthreads() is set aside as a fiber until all threads of its block are there.  With -DLM_RACE, lm_race.h watches every access.
 * Nothing here says anything about speed on a GPU.
 */
#pragma once
#if defined(__APPLE__)
#define _XOPEN_SOURCE 600
#endif
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __host__
#define __shared__ static thread_local
#define __align__(n) __attribute__((aligned(n)))
#define __forceinline__ inline
#define __launch_bounds__(...)
#define LM_QUIET __attribute__((no_sanitize("thread")))

struct uint3 {
  unsigned x, y, z;
};
struct dim3 : uint3 {
  LM_QUIET dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : uint3{x, y, z} {}
};
/* plain zeros at first: what needs no constructor needs no guard at every use */
static thread_local uint3 threadIdx, blockIdx, blockDim, gridDim;

/* ---- the runtime's functions: those that generated code calls, and enough for a caller to stand on */

typedef void *cudaStream_t;
typedef int cudaError_t;
enum { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorUnknown = 999 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
static thread_local cudaError_t lm_error;

static inline LM_QUIET cudaError_t cudaGetLastError(void) {
  const cudaError_t error = lm_error;
  lm_error = cudaSuccess;
  return error;
}
static inline LM_QUIET cudaError_t cudaMallocAsync(void **p, size_t n, cudaStream_t) {
  *p = n < (size_t)PTRDIFF_MAX ? malloc(n) : NULL;
  if (*p == NULL) return lm_error = cudaErrorMemoryAllocation;
  memset(*p, 0xa5, n); /* fresh memory holds anything */
  return cudaSuccess;
}
static inline LM_QUIET cudaError_t cudaFreeAsync(void *p, cudaStream_t) {
  free(p);
  return cudaSuccess;
}
static inline LM_QUIET cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, cudaMemcpyKind, cudaStream_t) {
  memcpy(to, from, n);
  return cudaSuccess;
}
template <class T> static inline LM_QUIET cudaError_t cudaGetSymbolAddress(void **p, T &symbol) {
  *p = &symbol;
  return cudaSuccess;
}
template <class T> static inline LM_QUIET cudaError_t cudaMemcpyFromSymbolAsync(void *to, const T &from, size_t n, size_t, cudaMemcpyKind, cudaStream_t) {
  memcpy(to, &from, n);
  return cudaSuccess;
}
template <class T> static inline LM_QUIET cudaError_t cudaMemcpyToSymbolAsync(T &to, const void *from, size_t n, size_t, cudaMemcpyKind, cudaStream_t) {
  memcpy(&to, from, n);
  return cudaSuccess;
}
static inline cudaError_t cudaStreamCreate(cudaStream_t *stream) {
  *stream = NULL; /* all work is done in order, at once */
  return cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }

static inline LM_QUIET int atomicMax(int *p, int value) {
  const int old = *p;
  if (old < value) *p = value;
  return old;
}

/* ---- orders */

/* One for all sources of a library. */
__attribute__((visibility("hidden"))) inline uint64_t lm_seed = 1;
extern "C" __attribute__((weak)) void lm_host_seed(uint64_t seed) { lm_seed = seed; }

struct lm_order {
  uint64_t count, start, stride;

  LM_QUIET lm_order(uint64_t count, uint64_t salt) : count(count), start(0), stride(1) {
    if (lm_seed == 0 || count < 2) return;
    uint64_t x = (lm_seed + salt) * 0x9e3779b97f4a7c15u; /* splitmix64 */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    start = x % count;
    for (stride = (x >> 32) % (count - 1) + 1; divisor(stride, count) != 1;) stride = stride % (count - 1) + 1;
  }
  static LM_QUIET uint64_t divisor(uint64_t a, uint64_t b) {
    while (b) {
      const uint64_t rest = a % b;
      a = b;
      b = rest;
    }
    return a;
  }
  LM_QUIET uint64_t operator[](uint64_t k) const { return (uint64_t)((start + (unsigned __int128)k * stride) % count); }
};

static inline LM_QUIET uint3 lm_place(uint64_t k, uint3 whole) {
  return {(unsigned)(k % whole.x), (unsigned)(k / whole.x % whole.y), (unsigned)(k / whole.x / whole.y)};
}

/* ---- copies that arrive when a barrier has waited for them: as late as they may.  Until then there is nothing that anybody should read. */

struct lm_copy {
  void *to;
  uint64_t stretch; /* between barriers, in which it began */
  int bytes;
  uint8_t what[16];
};

static thread_local struct {
  lm_copy *copies;
  uint64_t count, room, stretch;
  int later; /* of the barrier that is being waited at */
} lm_on_way;

static LM_QUIET void lm_copy_begins(void *to, const void *from, int bytes, int whole) {
  if (lm_on_way.count == lm_on_way.room) {
    lm_on_way.room = lm_on_way.room * 2 + 64;
    lm_on_way.copies = (lm_copy *)realloc(lm_on_way.copies, lm_on_way.room * sizeof(lm_copy));
    if (!lm_on_way.copies) abort();
  }
  lm_copy *const copy = &lm_on_way.copies[lm_on_way.count++];
  *copy = {to, lm_on_way.stretch, whole, {}};
  memcpy(copy->what, from, bytes);
}

static inline void lm_copy_later(void *to, const void *from, int bytes, int whole) {
  uint8_t what[16];
  for (int k = 0; k < bytes; k++) what[k] = ((const uint8_t *)from)[k];
  lm_copy_begins(to, what, bytes, whole);
  for (int k = 0; k < whole; k++) ((uint8_t *)to)[k] = 0xff; /* NaN */
}

static inline LM_QUIET void lm_arrived(int later) { lm_on_way.later = later; }

/* All threads are at the barrier. */
static LM_QUIET void lm_arrive(void) {
  uint64_t left = 0;
  lm_on_way.stretch++;
  for (uint64_t k = 0; k < lm_on_way.count; k++) {
    const lm_copy copy = lm_on_way.copies[k];
    if (copy.stretch + lm_on_way.later >= lm_on_way.stretch) {
      lm_on_way.copies[left++] = copy;
    } else {
      memcpy(copy.to, copy.what, copy.bytes);
    }
  }
  lm_on_way.count = left;
}

/* ---- the threads of a block: plain calls until one of them waits */

struct lm_fiber {
  ucontext_t at;
  uint3 thread;
  lm_fiber *next;
  char *stack;
};

/* What is the running block's.  `started` threads have begun, of which `finished` are done and `arrived` wait at the barrier;
 * `ready` is the list of those that may go on behind it. */
static thread_local struct {
  void (*call)(const void *kernel);
  const void *kernel;
  const lm_order *order;
  uint64_t block, started, finished, arrived, phase;
  lm_fiber own, *running, *waiting, *ready, *idle;
} lm_team;

enum { LM_STACK = 1 << 16 };

static inline LM_QUIET void lm_switch(lm_fiber *to) {
  lm_fiber *const from = lm_team.running;
  lm_team.running = to;
  threadIdx = to->thread;
  swapcontext(&from->at, &to->at);
}

/* Starts threads until all of the block have begun. */
static LM_QUIET void lm_start_threads(void) {
  while (lm_team.started < lm_team.order->count) {
    threadIdx = lm_place((*lm_team.order)[lm_team.started++], blockDim);
    lm_team.call(lm_team.kernel);
    lm_team.finished++;
  }
}

static LM_QUIET lm_fiber *lm_take(lm_fiber *&list) {
  lm_fiber *const first = list;
  list = first->next;
  return first;
}

/* Who runs when the running fiber cannot: one that is behind the barrier, or at the end the block's own caller. */
static LM_QUIET lm_fiber *lm_others(void) {
  if (lm_team.ready) return lm_take(lm_team.ready);
  if (lm_team.arrived) {
    fprintf(stderr, "luminal: __syncthreads: %llu of %llu threads are there, the others have returned\n", (unsigned long long)lm_team.arrived,
            (unsigned long long)lm_team.order->count);
    abort();
  }
  return &lm_team.own;
}

static LM_QUIET void lm_fiber_main(void) {
  for (;;) {
    lm_start_threads();
    lm_fiber *const self = lm_team.running, *const to = lm_others();
    self->next = lm_team.idle;
    lm_team.idle = self;
    lm_switch(to); /* comes back when another block needs this fiber */
  }
}

static LM_QUIET lm_fiber *lm_fresh(void) {
  if (lm_team.idle) return lm_take(lm_team.idle);
  lm_fiber *const fiber = (lm_fiber *)calloc(1, sizeof *fiber);
  if (!fiber || !(fiber->stack = (char *)malloc(LM_STACK)) || getcontext(&fiber->at)) abort();
  fiber->at.uc_stack.ss_sp = fiber->stack;
  fiber->at.uc_stack.ss_size = LM_STACK;
  makecontext(&fiber->at, lm_fiber_main, 0);
  return fiber;
}

static inline LM_QUIET void __syncthreads(void) {
  lm_fiber *const self = lm_team.running;
  self->thread = threadIdx;
  if (++lm_team.arrived == lm_team.order->count) { /* the last one: it goes on first, then those that came latest */
    lm_team.arrived = 0;
    lm_team.phase++;
    if (lm_on_way.count) lm_arrive();
    lm_team.ready = lm_team.waiting;
    lm_team.waiting = NULL;
    return;
  }
  self->next = lm_team.waiting;
  lm_team.waiting = self;
  lm_switch(lm_team.started < lm_team.order->count ? lm_fresh() : lm_others());
}

static inline LM_QUIET void lm_block(void) {
  lm_team.running = &lm_team.own;
  lm_team.started = lm_team.finished = lm_team.arrived = 0;
  lm_start_threads();
  while (lm_team.finished < lm_team.order->count) lm_switch(lm_others());
}

#ifdef LM_RACE
#include "lm_race.h"
#else
static inline void lm_watch(void) {}
static inline void lm_judge(void) {}
#endif

template <class F> static LM_QUIET void lm_launch(dim3 grid, dim3 block, const F &kernel) {
  const uint64_t threads = (uint64_t)block.x * block.y * block.z;
  const lm_order blocks((uint64_t)grid.x * grid.y * grid.z, 0), order(threads, 1);
  if (blocks.count == 0 || threads == 0 || threads > 1024) {
    lm_error = cudaErrorUnknown;
    return;
  }
  gridDim = grid;
  blockDim = block;
  lm_team.call = [](const void *k) { (*(const F *)k)(); };
  lm_team.kernel = &kernel;
  lm_team.order = &order;
  lm_watch();
  for (uint64_t k = 0; k < blocks.count; k++) {
    lm_team.block = blocks[k];
    blockIdx = lm_place(lm_team.block, grid);
    lm_block();
  }
  lm_judge();
  while (lm_team.idle) {
    lm_fiber *const fiber = lm_take(lm_team.idle);
    free(fiber->stack);
    free(fiber);
  }
}
#define LM_LAUNCH(kernel, grid, block, stream, ...) ((void)(stream), lm_launch(grid, block, [&] { kernel(__VA_ARGS__); }))

#define LM_LAUNCH_SHARED(kernel, grid, block, bytes, stream, ...) LM_LAUNCH(kernel, grid, block, stream, __VA_ARGS__)
#define LM_SHARED(bytes) __shared__ __align__(1024) unsigned char lm_shared[bytes]

/* A launch for who loads the kernels without the entry: `thread` is called once for each thread, with its indices set. */
extern "C" __attribute__((weak)) void lm_host_launch(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, void (*thread)(void)) {
  lm_launch(dim3(gx, gy, gz), dim3(bx, by, bz), [=] { thread(); });
}
