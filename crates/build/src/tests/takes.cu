__device__ __noinline__ float deep(float x, int n) { return n <= 0 ? x : deep(x * 2, n - 1) + 1; }
extern "C" __global__ void plain(float* o) { *o = 1; }
extern "C" __global__ void shares(float* o, int n) {
    __shared__ float tile[100];
    extern __shared__ float more[];
    tile[threadIdx.x] = o[n];
    more[threadIdx.x] = 1;
    __syncthreads();
    o[threadIdx.x] = tile[99 - threadIdx.x] + more[1];
}
extern "C" __global__ void frames(float* o, int n) {
    float local[32];
    for (int i = 0; i < 32; ++i) local[i] = o[i];
    for (int i = 0; i < n; ++i) local[(i * n) & 31] += local[(i + n) & 31];
    *o = local[n & 31];
}
extern "C" __global__ void barriers(float* o) {
    asm volatile("bar.sync 3, 64;");
    asm volatile("bar.sync 5, 64;");
    *o = 1;
}
#ifdef DEEP
extern "C" __global__ void recurses(float* o, int n) { *o = deep(*o, n); }
#endif
