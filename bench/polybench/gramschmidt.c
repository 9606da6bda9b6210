static void gramschmidt(int M, int N, double A[restrict M][N], double R[restrict N][N], double Q[restrict M][N]) {
  for (int k = 0; k < N; k++) {
    double norm = 0;
    for (int i = 0; i < M; i++) norm += A[i][k] * A[i][k];
    R[k][k] = sqrt(norm);
    for (int i = 0; i < M; i++) Q[i][k] = A[i][k] / R[k][k];
    for (int j = k + 1; j < N; j++) {
      R[k][j] = 0;
      for (int i = 0; i < M; i++) R[k][j] += Q[i][k] * A[i][j];
      for (int i = 0; i < M; i++) A[i][j] = A[i][j] - Q[i][k] * R[k][j];
    }
  }
}
