static void gesummv(int N, double A[restrict N][N], double B[restrict N][N], double x[restrict N], double alpha, double beta, double y[restrict N], double a[restrict N]) {
  for (int i = 0; i < N; i++) {
    a[i] = 0;
    y[i] = 0;
    for (int j = 0; j < N; j++) {
      a[i] = A[i][j] * x[j] + a[i];
      y[i] = B[i][j] * x[j] + y[i];
    }
    y[i] = alpha * a[i] + beta * y[i];
  }
}
