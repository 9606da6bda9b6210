/* Races under the host shim: two threads of a launch touch one byte, at least one of them writes, and no barrier stands between them.
 *
 * The generated source is compiled with -fsanitize=thread, which makes the compiler call the functions below before every access to memory, and linked
 * without that sanitizer's library.  One cell a byte remembers its last writer and its last two readers.  What lies on a thread's own stack is its own,
 * what is __shared__ is its block's (a section of its own tells it by its address; ELF only, one calling thread only).
 * What is found is printed, and the launch reports an error.
 */
#undef __shared__
#define __shared__ __attribute__((section("lm_shared"))) static
extern "C" __attribute__((weak, visibility("hidden"))) char __start_lm_shared[], __stop_lm_shared[];

struct lm_visit {
  uint64_t block, thread, phase; /* thread: 1 + its place in the block; 0 is nobody */
};

struct lm_cell {
  uintptr_t byte;
  lm_visit writer, readers[2];
};

/* An open hash table of the bytes that the running launch has touched. */
static thread_local struct {
  lm_cell *cells;
  uint64_t size, used, races;
  uintptr_t stack; /* where the caller's stack stood at the launch */
} lm_seen;

static LM_QUIET lm_cell *lm_probe(lm_cell *cells, uint64_t size, uintptr_t byte) {
  uint64_t k = (byte * 0x9e3779b97f4a7c15u) >> 20 & (size - 1);
  while (cells[k].byte && cells[k].byte != byte) k = (k + 1) & (size - 1);
  return &cells[k];
}

static LM_QUIET lm_cell *lm_cell_of(uintptr_t byte) {
  if (lm_seen.used * 2 >= lm_seen.size) {
    const uint64_t size = lm_seen.size ? lm_seen.size * 4 : 1 << 12;
    lm_cell *const cells = (lm_cell *)calloc(size, sizeof *cells);
    if (!cells) abort();
    for (uint64_t k = 0; k < lm_seen.size; k++) {
      if (lm_seen.cells[k].byte) *lm_probe(cells, size, lm_seen.cells[k].byte) = lm_seen.cells[k];
    }
    free(lm_seen.cells);
    lm_seen.cells = cells;
    lm_seen.size = size;
  }
  lm_cell *const cell = lm_probe(lm_seen.cells, lm_seen.size, byte);
  lm_seen.used += !cell->byte;
  cell->byte = byte;
  return cell;
}

static LM_QUIET bool lm_clash(const lm_visit &a, const lm_visit &b, bool shared) {
  if (!a.thread || (a.block == b.block && a.thread == b.thread)) return false;
  return a.block != b.block ? !shared : a.phase == b.phase;
}

/* Whether the address lies on the stack of the running thread: the fiber's, or what the launch's caller has pushed since. */
static LM_QUIET bool lm_is_private(uintptr_t at) {
  const lm_fiber *const self = lm_team.running;
  if (self->stack) return at - (uintptr_t)self->stack < LM_STACK;
  const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  return at >= here - 4096 && at <= lm_seen.stack;
}

static LM_QUIET void lm_access(const void *p, uint64_t bytes, bool writes) {
  const uintptr_t at = (uintptr_t)p;
  if (!lm_seen.stack || lm_is_private(at)) return;
  const lm_visit me = {lm_team.block, 1 + threadIdx.x + (uint64_t)blockDim.x * (threadIdx.y + (uint64_t)blockDim.y * threadIdx.z), lm_team.phase};
  const bool shared = at - (uintptr_t)__start_lm_shared < (uintptr_t)(__stop_lm_shared - __start_lm_shared);
  for (uint64_t k = 0; k < bytes; k++) {
    lm_cell *const cell = lm_cell_of(at + k);
    const lm_visit *other = lm_clash(cell->writer, me, shared) ? &cell->writer : NULL;
    for (int r = 0; r < 2 && writes && !other; r++) other = lm_clash(cell->readers[r], me, shared) ? &cell->readers[r] : NULL;
    if (other && !lm_seen.races++) {
      fprintf(stderr, "luminal: race: thread %llu of block %llu %s what thread %llu of block %llu %s, with no barrier between them\n",
              (unsigned long long)me.thread - 1, (unsigned long long)me.block, writes ? "writes" : "reads", (unsigned long long)other->thread - 1,
              (unsigned long long)other->block, other == &cell->writer ? "has written" : "has read");
    }
    if (writes) {
      cell->writer = me;
    } else { /* the place of the same thread, else of one that no later write can clash with, else the second */
      lm_visit *const place = cell->readers;
      const bool first = (place[0].block == me.block && (place[0].thread == me.thread || place[0].phase != me.phase)) || !place[0].thread;
      place[first ? 0 : 1] = me;
    }
  }
}

static LM_QUIET void lm_watch(void) { lm_seen.stack = (uintptr_t)__builtin_frame_address(0); }

static LM_QUIET void lm_judge(void) {
  if (lm_seen.races) lm_error = cudaErrorUnknown;
  free(lm_seen.cells);
  memset(&lm_seen, 0, sizeof lm_seen);
}

/* What the compiler calls. */
extern "C" {
#define LM_ACCESS(n)                                                     \
  LM_QUIET void __tsan_read##n(void *p) { lm_access(p, n, false); }      \
  LM_QUIET void __tsan_write##n(void *p) { lm_access(p, n, true); }      \
  LM_QUIET void __tsan_unaligned_read##n(void *p) { lm_access(p, n, false); } \
  LM_QUIET void __tsan_unaligned_write##n(void *p) { lm_access(p, n, true); }
LM_ACCESS(1) LM_ACCESS(2) LM_ACCESS(4) LM_ACCESS(8) LM_ACCESS(16)
#undef LM_ACCESS
LM_QUIET void __tsan_read_range(void *p, long n) { lm_access(p, n, false); }
LM_QUIET void __tsan_write_range(void *p, long n) { lm_access(p, n, true); }
LM_QUIET void *__tsan_memcpy(void *to, const void *from, unsigned long n) {
  lm_access(from, n, false);
  lm_access(to, n, true);
  return memcpy(to, from, n);
}
LM_QUIET void *__tsan_memset(void *to, int value, unsigned long n) {
  lm_access(to, n, true);
  return memset(to, value, n);
}
LM_QUIET void __tsan_init(void) {}
LM_QUIET void __tsan_func_entry(void *) {}
LM_QUIET void __tsan_func_exit(void *) {}
}
