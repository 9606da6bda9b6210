static void three_products(
  int I, int K, int J, int M, int L, double A[restrict I][K], double B[restrict K][J], double C[restrict J][M], double D[restrict M][L], double G[restrict I][L],
  double left[restrict I][J], double right[restrict J][L]
) {
  for (int i = 0; i < I; i++)
    for (int j = 0; j < J; j++) {
      left[i][j] = 0;
      for (int k = 0; k < K; k++) left[i][j] += A[i][k] * B[k][j];
    }
  for (int j = 0; j < J; j++)
    for (int l = 0; l < L; l++) {
      right[j][l] = 0;
      for (int m = 0; m < M; m++) right[j][l] += C[j][m] * D[m][l];
    }
  for (int i = 0; i < I; i++)
    for (int l = 0; l < L; l++) {
      G[i][l] = 0;
      for (int j = 0; j < J; j++) G[i][l] += left[i][j] * right[j][l];
    }
}
