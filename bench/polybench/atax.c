static void atax(int M, int N, double A[restrict M][N], double x[restrict N], double y[restrict N], double image[restrict M]) {
  for (int j = 0; j < N; j++) y[j] = 0;
  for (int i = 0; i < M; i++) {
    image[i] = 0;
    for (int j = 0; j < N; j++) image[i] += A[i][j] * x[j];
    for (int j = 0; j < N; j++) y[j] += A[i][j] * image[i];
  }
}
