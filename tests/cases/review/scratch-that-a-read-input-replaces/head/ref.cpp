extern "C" void ref(const float* x, const float* table, float* y) { for (int i = 0; i < 256; ++i) y[i] = x[i]; }
