__constant__ float table[4];
static __constant__ int other[3] = {1, 2, 3};
__device__ int counter;
template <int N> __device__ int held = N;
template <int N> __global__ void k(float* o, int n) {
    __shared__ float s[N];
    float local[32];
    for (int i = 0; i < 32; ++i) local[i] = o[i];
    for (int i = 0; i < n; ++i) local[(i * n) & 31] += local[(i + n) & 31];
    const int list[] = {1, 5, 9, N, 3, 1, 4, 1, 5, 9, 2, 6};
    assert(n > N);
    if (n == 7) printf("x %d\n", n + N);
    if (N > 2) local[n & 31] += table[n & 3];
    s[threadIdx.x % N] = local[n & 31] + list[n % 12] + other[n % 3];
    __syncthreads();
    o[threadIdx.x] = s[(threadIdx.x + 1) % N];
    atomicAdd(N > 4 ? &counter : &held<N>, 1);
}
template <typename T> __global__ void copy(T* o, const T* i) { o[threadIdx.x] = i[threadIdx.x]; }
extern "C" __global__ void plain0(float* o) { *o = table[0]; printf("plain"); }
extern "C" __global__ void plain1(float* o) { *o = 1 + other[threadIdx.x]; }
extern "C" __global__ void plain2(float* o) { *o = 2; }
extern "C" __global__ void plain3(float* o) { *o = 3; }
extern "C" __global__ void plain4(float* o) { *o = 4; }
extern "C" __global__ void plain5(float* o) { *o = 5; }
