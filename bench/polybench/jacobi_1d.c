static void jacobi_1d(int N, double A[restrict N], double B[restrict N], int64_t steps) {
  for (int step = 0; step < steps; step++) {
    for (int i = 1; i < N - 1; i++) B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1]);
    for (int i = 1; i < N - 1; i++) A[i] = 0.33333 * (B[i - 1] + B[i] + B[i + 1]);
  }
}
