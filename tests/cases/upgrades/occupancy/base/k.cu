#ifdef HEAD
#define BOUNDS __launch_bounds__(256)
#define OTHER fresh
#define STEP(x, n) sqrtf(x) / (x + n)
#else
#define BOUNDS __launch_bounds__(256, 8)
#define OTHER gone
#define STEP(x, n) (float)((int)x ^ (n << 3))
#endif
extern "C" __global__ void BOUNDS busy(const float *x, float *y) {
    float a[64];
#pragma unroll
    for (int i = 0; i < 64; i++) a[i] = x[threadIdx.x + 256 * i];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 64; i++) sum = sum * a[63 - i] + a[i];
    y[threadIdx.x] = sum;
}
extern "C" __global__ void same(float *y) { y[threadIdx.x] *= 2; }
extern "C" __global__ void OTHER(float *y, int n) {
    for (int i = 0; i < n; i++) y[i] = STEP(y[i], n);
}
#ifdef HEAD
extern "C" __global__ void more(float *y) { y[threadIdx.x] += 3; }
#endif
