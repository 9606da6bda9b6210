static void fdtd_2d(int I, int J, int steps, double ex[restrict I][J], double ey[restrict I][J], double hz[restrict I][J], double source[restrict steps]) {
  for (int step = 0; step < steps; step++) {
    for (int j = 0; j < J; j++) ey[0][j] = source[step];
    for (int i = 1; i < I; i++)
      for (int j = 0; j < J; j++) ey[i][j] = ey[i][j] - 0.5 * (hz[i][j] - hz[i - 1][j]);
    for (int i = 0; i < I; i++)
      for (int j = 1; j < J; j++) ex[i][j] = ex[i][j] - 0.5 * (hz[i][j] - hz[i][j - 1]);
    for (int i = 0; i < I - 1; i++)
      for (int j = 0; j < J - 1; j++) hz[i][j] = hz[i][j] - 0.7 * (ex[i][j + 1] - ex[i][j] + ey[i + 1][j] - ey[i][j]);
  }
}
