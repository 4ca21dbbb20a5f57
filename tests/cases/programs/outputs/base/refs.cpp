extern "C" void scale(const float *x, long n, float factor, float *y) {
    for (long i = 0; i < n; i++) y[i] = x[i] * factor;
}
