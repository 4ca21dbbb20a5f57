// Kernels with a slowdown factor: known slowdowns for recordings.

// A chain of dependent fused multiply-adds. `steps` / 8 links in every thread; each further step adds one link
// for one more of a block's eight warps.
__device__ float slowed(float value, int steps) {
    const int links = (steps + threadIdx.x / 32) / 8;
#pragma unroll 1
    for (int i = 0; i < links; ++i) value = fmaf(value, 0.999f, 1.0f);
    return value;
}

// Other machine code for the same work: one more store, which no launch reaches.
template <typename T>
__device__ void other_code(T* out, int at, T value, int steps) {
#ifdef OTHER_CODE
    if (steps < 0) out[at + 1] = value;
#endif
}

// Bound by arithmetic.
extern "C" __global__ void compute(float* out, int steps) {
    const float value = slowed(threadIdx.x, steps);
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at] = value;
    other_code(out, at, value, steps);
}

// Bound by memory: copies `count` times 16 bytes. It is slowed by a chain after the copy: more bytes would come
// in coarse jumps, as one more turn of the loop for some threads.
extern "C" __global__ void copy(const float4* in, float4* out, int count, int steps) {
    const int first = blockIdx.x * blockDim.x + threadIdx.x;
    float4 last = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int i = first; i < count; i += gridDim.x * blockDim.x) out[i] = last = in[i];
    other_code(out, first, last, steps);
    if (slowed(last.x, steps) == 12345.0f) out[first] = last;
}
