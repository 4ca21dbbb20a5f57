extern "C" void reference(const int* x, int* y, int n) {
    for (int i = 0; i < n; ++i) y[i] = x[i] + 1;
}
