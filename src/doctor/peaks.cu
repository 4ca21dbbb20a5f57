// Kernels that keep one resource of a GPU busy each, for `gatekeeper doctor --peaks`. The host's side, peaks.rs, knows
// how much work each does.

constexpr int CHAINS = 8;

// Eight chains of dependent multiply-adds a thread: 16 operations a step.
extern "C" __global__ void fp32(float* out, int steps) {
    float value[CHAINS];
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) value[i] = threadIdx.x + i;
#pragma unroll 4
    for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int i = 0; i < CHAINS; ++i) value[i] = fmaf(value[i], 0.999f, 1.0f);
    }
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) sum += value[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Eight sums of 16 x 8 x 16 products of halves a warp: 8 * 4096 operations a step.
extern "C" __global__ void tensor(float* out, int steps) {
    float sum[CHAINS][4] = {};
    // Halves between 2^-7 and 2^-6, so that no sum overflows and no operand is 0.
    const unsigned a = 0x20002000u + threadIdx.x, b = 0x21002100u + threadIdx.x;
#pragma unroll 2
    for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int i = 0; i < CHAINS; ++i) {
#if __CUDA_ARCH__ >= 800
            asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%4,%5}, {%5,%4}, {%0,%1,%2,%3};"
                : "+f"(sum[i][0]), "+f"(sum[i][1]), "+f"(sum[i][2]), "+f"(sum[i][3])
                : "r"(a), "r"(b));
#else
            // Half as long, so twice.
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%5}, {%0,%1,%2,%3};"
                             : "+f"(sum[i][0]), "+f"(sum[i][1]), "+f"(sum[i][2]), "+f"(sum[i][3])
                             : "r"(a), "r"(b));
            }
#endif
        }
    }
    float all = 0.0f;
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) all += sum[i][0] + sum[i][1] + sum[i][2] + sum[i][3];
    out[blockIdx.x * blockDim.x + threadIdx.x] = all;
}

// Copies `count` times 16 bytes.
extern "C" __global__ void dram(const float4* in, float4* out, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) out[i] = in[i];
}

// Reads `count` times 16 bytes, `rounds` times, and not from L1.
extern "C" __global__ void l2(const float4* in, float* out, int count, int rounds) {
    float sum = 0.0f;
    const int first = blockIdx.x * blockDim.x + threadIdx.x;
    for (int round = 0; round < rounds; ++round) {
#pragma unroll 4
        for (int i = first; i < count; i += gridDim.x * blockDim.x) {
            const float4 value = __ldcg(in + i);
            sum += value.x + value.y + value.z + value.w;
        }
    }
    out[first] = sum;
}
