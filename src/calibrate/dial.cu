// Kernels whose time is set by one number: known slowdowns for `gatekeeper calibrate`.

// One turn of a chain of fused multiply-adds for an eighth of the warps of a block of eight: the step of the dial.
__device__ float turned(float value, int dial) {
    const int turns = (dial + threadIdx.x / 32) / 8;
#pragma unroll 1
    for (int i = 0; i < turns; ++i) value = fmaf(value, 0.999f, 1.0f);
    return value;
}

// Other machine code for the same work: what no launch does is in the way of what it does.
#ifdef OTHER_CODE
__device__ bool never(int dial) { return dial < 0; }
#else
__device__ bool never(int) { return false; }
#endif

__device__ float aside(float value) {
#pragma unroll
    for (int i = 0; i < 100; ++i) value = sqrtf(value * value + i);
    return value;
}

// Bound by the multiprocessors.
extern "C" __global__ void compute(float* out, int dial) {
    float value = threadIdx.x;
    if (never(dial)) value = aside(value);
    out[blockIdx.x * blockDim.x + threadIdx.x] = turned(value, dial);
}

// Bound by memory: copies `count` times 16 bytes. The dial is a chain behind the copy, because more bytes
// come in steps: one more turn of the loop for some threads.
extern "C" __global__ void copy(const float4* in, float4* out, int count, int dial) {
    const int first = blockIdx.x * blockDim.x + threadIdx.x;
    float4 last = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int i = first; i < count; i += gridDim.x * blockDim.x) out[i] = last = in[i];
    if (never(dial)) last.x = aside(last.x);
    if (turned(last.x, dial) == 12345.0f) out[first] = last;
}
