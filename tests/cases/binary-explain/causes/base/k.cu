#ifdef HEAD
constexpr int TURNS = 1;
#define BOUNDS __launch_bounds__(256, 8)
#else
constexpr int TURNS = 8;
#define BOUNDS __launch_bounds__(256)
#endif
extern "C" __global__ void dot(const float *x, const float *z, float *y, int n) {
    float sum = 0;
#pragma unroll TURNS
    for (int i = threadIdx.x; i < n; i += 256)
        sum += x[i] * z[i];
    y[threadIdx.x] = sum;
}
extern "C" __global__ void scale(const float *x, float *y) {
    int i = threadIdx.x + blockIdx.x * 256;
#ifdef HEAD
    for (int k = 0; k < 4; k++) y[4 * i + k] = x[4 * i + k] * 2;
#else
    float4 v = ((const float4 *)x)[i];
    ((float4 *)y)[i] = make_float4(v.x * 2, v.y * 2, v.z * 2, v.w * 2);
#endif
}
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
