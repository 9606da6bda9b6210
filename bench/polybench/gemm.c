static void gemm(int I, int K, int J, double A[restrict I][K], double B[restrict K][J], double C[restrict I][J], double alpha, double beta) {
  for (int i = 0; i < I; i++) {
    for (int j = 0; j < J; j++) C[i][j] *= beta;
    for (int k = 0; k < K; k++)
      for (int j = 0; j < J; j++) C[i][j] += alpha * A[i][k] * B[k][j];
  }
}
