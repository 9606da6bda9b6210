static void nussinov(int N, signed char bases[restrict N], int table[restrict N][N]) {
#define MOST(a, b) ((a) >= (b) ? (a) : (b))
  for (int i = N - 1; i >= 0; i--)
    for (int j = i + 1; j < N; j++) {
      table[i][j] = MOST(table[i][j], table[i][j - 1]);
      if (i + 1 < N) table[i][j] = MOST(table[i][j], table[i + 1][j]);
      if (i + 1 < N) {
        if (i < j - 1)
          table[i][j] = MOST(table[i][j], table[i + 1][j - 1] + (bases[i] + bases[j] == 3 ? 1 : 0));
        else
          table[i][j] = MOST(table[i][j], table[i + 1][j - 1]);
      }
      for (int k = i + 1; k < j; k++) table[i][j] = MOST(table[i][j], table[i][k] + table[k + 1][j]);
    }
#undef MOST
}
