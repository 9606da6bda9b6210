static void two_products(
  int I, int K, int J, int L, double A[restrict I][K], double B[restrict K][J], double C[restrict J][L], double D[restrict I][L], double alpha, double beta,
  double product[restrict I][J]
) {
  for (int i = 0; i < I; i++)
    for (int j = 0; j < J; j++) {
      product[i][j] = 0;
      for (int k = 0; k < K; k++) product[i][j] += alpha * A[i][k] * B[k][j];
    }
  for (int i = 0; i < I; i++)
    for (int l = 0; l < L; l++) {
      D[i][l] *= beta;
      for (int j = 0; j < J; j++) D[i][l] += product[i][j] * C[j][l];
    }
}
