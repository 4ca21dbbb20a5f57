extern "C" void rows(const float* x, float* y) {
  for (int i = 0; i < 256; i++) y[i] = x[i];
}
