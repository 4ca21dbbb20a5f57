template <int N> __global__ void __launch_bounds__(1024, 2) scale(float *y) {
    float a[N];
    for (int i = 0; i < N; i++) a[i] = y[threadIdx.x + i * 1024];
    __syncthreads();
    for (int i = 0; i < N; i++) y[threadIdx.x + i] = a[i] * a[N - 1 - i];
}
extern "C" __global__ void same(float *y) { y[threadIdx.x] *= 2; }
template __global__ void scale<SIZE>(float *);
#ifdef OTHER
template __global__ void scale<OTHER>(float *);
#endif
