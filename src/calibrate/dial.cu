// Kernels whose time is set by one number: known slowdowns for `gatekeeper calibrate`.

// One turn of a chain of fused multiply-adds for an eighth of the warps of a block of eight: the step of the dial.
__device__ float turned(float value, int dial) {
    const int turns = (dial + threadIdx.x / 32) / 8;
#pragma unroll 1
    for (int i = 0; i < turns; ++i) value = fmaf(value, 0.999f, 1.0f);
    return value;
}

// Other machine code for the same work: one store more, which no launch reaches.
template <typename T>
__device__ void other_code(T* out, int at, T value, int dial) {
#ifdef OTHER_CODE
    if (dial < 0) out[at + 1] = value;
#endif
}

// Bound by the multiprocessors.
extern "C" __global__ void compute(float* out, int dial) {
    const float value = turned(threadIdx.x, dial);
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at] = value;
    other_code(out, at, value, dial);
}

// Bound by memory: copies `count` times 16 bytes. The dial is a chain behind the copy, because more bytes
// come in steps: one more turn of the loop for some threads.
extern "C" __global__ void copy(const float4* in, float4* out, int count, int dial) {
    const int first = blockIdx.x * blockDim.x + threadIdx.x;
    float4 last = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int i = first; i < count; i += gridDim.x * blockDim.x) out[i] = last = in[i];
    other_code(out, first, last, dial);
    if (turned(last.x, dial) == 12345.0f) out[first] = last;
}
