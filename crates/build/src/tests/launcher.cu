template <int N> __global__ void add(const float* x, float* y, int n) {
    extern __shared__ float stage[];
    if (threadIdx.x < n) { stage[threadIdx.x] = x[threadIdx.x]; y[threadIdx.x] = stage[threadIdx.x] + N; }
}
__global__ void undeclared(float* y) { *y = 0; }
extern "C" RESULT launch(const float* x, float* y, unsigned short n, double scale, cudaStream_t stream) {
    undeclared<<<1, 1, 0, stream>>>(y);
    add<2><<<1, 32, 128, stream>>>(x, y, int(n * scale));
    RETURN;
}
