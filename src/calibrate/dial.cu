// Kernels whose time is set by one number: known slowdowns for `gatekeeper calibrate`.

// Bound by the multiprocessors: one chain of fused multiply-adds in every thread.
extern "C" __global__ void compute(float* out, int iterations) {
    float value = threadIdx.x;
#pragma unroll 1
    for (int i = 0; i < iterations; ++i) value = fmaf(value, 0.999f, 1.0f);
    out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

// Bound by memory: copies `count` times 16 bytes. The dial is a chain behind the copy, because more bytes
// come in steps: one more turn of the loop for some threads.
extern "C" __global__ void copy(const float4* in, float4* out, int count, int iterations) {
    const int first = blockIdx.x * blockDim.x + threadIdx.x;
    float4 last = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int i = first; i < count; i += gridDim.x * blockDim.x) out[i] = last = in[i];
    float value = last.x;
#pragma unroll 1
    for (int i = 0; i < iterations; ++i) value = fmaf(value, 0.999f, 1.0f);
    if (value == 12345.0f) out[first] = last;
}
