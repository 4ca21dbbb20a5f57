extern "C" void r(const float* x, float* y, int n) {
        for (int i = 0; i < n; ++i) for (int j = 0; j <= i; ++j) y[i * n + j] = 2 * x[i * n + j];
}
