// What `ldmatrix` and `mma` do (PTX ISA, "Warp-level matrix instructions"), by 32 threads of the host that wait for one another: the device's branch of the helper is compiled against it.
// Included after it come the helper's text, as MATRIX, and `main` below.
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>
#define __host__
#define __device__
#define __forceinline__ inline
static thread_local struct { unsigned x; } threadIdx;
static std::barrier team(32);
static const uint16_t *given[32];
static uint32_t of_a[32][4], of_b[32][2];

static float wide(uint16_t x) {
  const uint32_t bits = (uint32_t)x << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
static void load(uint32_t *r, const uint16_t *row, bool turned) {
  const unsigned lane = threadIdx.x % 32, g = lane / 4, q = lane % 4 * 2;
  if ((uintptr_t)row % 16) abort();
  given[lane] = row;
  team.arrive_and_wait();
  for (unsigned n = 0; n < 4; n++) {
    const uint16_t low = turned ? given[8 * n + q][g] : given[8 * n + g][q], high = turned ? given[8 * n + q + 1][g] : given[8 * n + g][q + 1];
    r[n] = low | (uint32_t)high << 16;
  }
  team.arrive_and_wait();
}
static void load_matrices_bf16(uint32_t *r, const uint16_t *row) { load(r, row, false); }
static void load_turned_bf16(uint32_t *r, const uint16_t *row) { load(r, row, true); }
static float element(uint32_t word, unsigned k) { return wide((uint16_t)(word >> 16 * k)); }
static float a_at(unsigned row, unsigned k) { return element(of_a[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k % 2); }
static float b_at(unsigned k, unsigned column) { return element(of_b[column * 4 + k % 8 / 2][k / 8], k % 2); }
static void multiply_matrices_bf16(float &c0, float &c1, float &c2, float &c3, const uint32_t *a, const uint32_t *b) {
  const unsigned lane = threadIdx.x % 32, g = lane / 4, q = lane % 4 * 2;
  memcpy(of_a[lane], a, 16);
  memcpy(of_b[lane], b, 8);
  team.arrive_and_wait();
  for (unsigned k = 0; k < 16; k++) {
    c0 += a_at(g, k) * b_at(k, q);
    c1 += a_at(g, k) * b_at(k, q + 1);
    c2 += a_at(g + 8, k) * b_at(k, q);
    c3 += a_at(g + 8, k) * b_at(k, q + 1);
  }
  team.arrive_and_wait();
}
#include MATRIX

/* Rows of operands one behind the other, eight elements apart, or swizzled by so many. */
template <int ROWS, int COLUMNS, int STEPS, bool A_ALONG, bool B_ALONG, int A_SWIZZLE = 0, int B_SWIZZLE = 0> static int check() {
  enum { M = ROWS * 16, N = COLUMNS * 8, K = STEPS * 16, A_FAR = A_SWIZZLE ? A_SWIZZLE : (A_ALONG ? K : M) + 8, B_FAR = B_SWIZZLE ? B_SWIZZLE : (B_ALONG ? K : N) + 8 };
  enum { A_ROW = A_ALONG ? A_FAR : 1, A_K = A_ALONG ? 1 : A_FAR, B_COLUMN = B_ALONG ? B_FAR : 1, B_K = B_ALONG ? 1 : B_FAR };
  alignas(16) static uint16_t a[A_FAR * (A_ALONG ? M : K)], b[B_FAR * (B_ALONG ? N : K)];
  for (auto &x : a) x = (uint16_t)(0x3f80 + rand() % 8 * 16); /* whole sixteenths from 1 on: sums are exact */
  for (auto &x : b) x = (uint16_t)(0x3f80 + rand() % 8 * 16);
  static float c[32][ROWS * 2 * COLUMNS * 2];
  memset(c, 0, sizeof c);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 32; t++) {
    threads.emplace_back([t] {
      threadIdx.x = 64 + t;
      matrix_bf16<ROWS, COLUMNS, STEPS, 4 * COLUMNS, 2 * COLUMNS, 2, 1, A_ROW, 16 * A_ROW, A_K, A_SWIZZLE, B_COLUMN, 8 * B_COLUMN, B_K, B_SWIZZLE>(c[t], a, t / 4 * A_ROW, b, t % 4 * 2 * B_COLUMN);
    });
  }
  for (auto &t : threads) t.join();
  int wrong = 0;
  for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) {
      float sum = 0;
      for (int k = 0; k < K; k++) sum += wide(a[placed_u16<A_SWIZZLE>(i * A_ROW + k * A_K)]) * wide(b[placed_u16<B_SWIZZLE>(j * B_COLUMN + k * B_K)]);
      wrong += c[i % 8 * 4 + j % 8 / 2][i / 16 * 4 * COLUMNS + i / 8 % 2 * 2 * COLUMNS + j / 8 * 2 + j % 2] != sum;
    }
  }
  printf("%d by %d by %d, %d %d: %d wrong\n", M, N, K, A_ALONG, B_ALONG, wrong);
  return wrong;
}

int main() {
  const int wrong = check<1, 1, 1, true, true>() + check<2, 3, 2, true, false>() + check<1, 2, 1, false, true>() + check<2, 4, 2, false, false>() + check<4, 1, 1, true, false>() +
                    check<1, 1, 4, true, true, 64, 64>() + check<2, 16, 4, true, false, 64, 128>() + check<4, 2, 2, false, true, 64, 64>() + check<8, 4, 8, false, true, 128, 128>();
  return wrong != 0;
}
