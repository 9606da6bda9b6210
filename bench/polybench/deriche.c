static void deriche(
  int W, int H, float X[restrict W][H], float alpha, float Y[restrict W][H], float forward[restrict W][H], float backward[restrict W][H]
) {
  float decay = expf(-alpha);
  float k = (1 - decay) * (1 - decay) / (1 + 2 * alpha * decay - expf(2 * alpha));
  float a1 = k, a2 = k * decay * (alpha - 1), a3 = k * decay * (alpha + 1), a4 = -k * expf(-2 * alpha);
  float b1 = powf(2, -alpha), b2 = -expf(-2 * alpha);
  for (int i = 0; i < W; i++) {
    float ym1 = 0, ym2 = 0, xm1 = 0;
    for (int j = 0; j < H; j++) {
      forward[i][j] = a1 * X[i][j] + a2 * xm1 + b1 * ym1 + b2 * ym2;
      xm1 = X[i][j];
      ym2 = ym1;
      ym1 = forward[i][j];
    }
  }
  for (int i = 0; i < W; i++) {
    float yp1 = 0, yp2 = 0, xp1 = 0, xp2 = 0;
    for (int j = H - 1; j >= 0; j--) {
      backward[i][j] = a3 * xp1 + a4 * xp2 + b1 * yp1 + b2 * yp2;
      xp2 = xp1;
      xp1 = X[i][j];
      yp2 = yp1;
      yp1 = backward[i][j];
    }
  }
  for (int i = 0; i < W; i++)
    for (int j = 0; j < H; j++) Y[i][j] = forward[i][j] + backward[i][j];
  for (int j = 0; j < H; j++) {
    float xm1 = 0, ym1 = 0, ym2 = 0;
    for (int i = 0; i < W; i++) {
      forward[i][j] = a1 * Y[i][j] + a2 * xm1 + b1 * ym1 + b2 * ym2;
      xm1 = Y[i][j];
      ym2 = ym1;
      ym1 = forward[i][j];
    }
  }
  for (int j = 0; j < H; j++) {
    float xp1 = 0, xp2 = 0, yp1 = 0, yp2 = 0;
    for (int i = W - 1; i >= 0; i--) {
      backward[i][j] = a3 * xp1 + a4 * xp2 + b1 * yp1 + b2 * yp2;
      xp2 = xp1;
      xp1 = Y[i][j];
      yp2 = yp1;
      yp1 = backward[i][j];
    }
  }
  for (int i = 0; i < W; i++)
    for (int j = 0; j < H; j++) Y[i][j] = forward[i][j] + backward[i][j];
}
