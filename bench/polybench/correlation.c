static void correlation(int N, int M, double data[restrict N][M], double corr[restrict M][M], double mean[restrict M], double deviation[restrict M]) {
  for (int j = 0; j < M; j++) {
    mean[j] = 0;
    for (int i = 0; i < N; i++) mean[j] += data[i][j];
    mean[j] /= N;
  }
  for (int j = 0; j < M; j++) {
    deviation[j] = 0;
    for (int i = 0; i < N; i++) deviation[j] += (data[i][j] - mean[j]) * (data[i][j] - mean[j]);
    deviation[j] /= N;
    deviation[j] = sqrt(deviation[j]);
    deviation[j] = deviation[j] <= 0.1 ? 1 : deviation[j];
  }
  for (int i = 0; i < N; i++)
    for (int j = 0; j < M; j++) {
      data[i][j] -= mean[j];
      data[i][j] /= sqrt(N) * deviation[j];
    }
  for (int i = 0; i < M - 1; i++) {
    corr[i][i] = 1;
    for (int j = i + 1; j < M; j++) {
      corr[i][j] = 0;
      for (int k = 0; k < N; k++) corr[i][j] += data[k][i] * data[k][j];
      corr[j][i] = corr[i][j];
    }
  }
  corr[M - 1][M - 1] = 1;
}
