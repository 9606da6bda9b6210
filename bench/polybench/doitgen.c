static void doitgen(int R, int Q, int P, double A[restrict R][Q][P], double F[restrict P][P], double row[restrict P]) {
  for (int r = 0; r < R; r++)
    for (int q = 0; q < Q; q++) {
      for (int p = 0; p < P; p++) {
        row[p] = 0;
        for (int s = 0; s < P; s++) row[p] += A[r][q][s] * F[s][p];
      }
      for (int p = 0; p < P; p++) A[r][q][p] = row[p];
    }
}
