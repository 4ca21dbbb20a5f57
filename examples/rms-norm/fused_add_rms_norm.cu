#include <cstdint>
#include <cuda_fp16.h>

namespace llm {

__device__ inline float warp_sum(float value)
{
    for (int mask = 16; mask > 0; mask >>= 1) value += __shfl_xor_sync(0xffffffffu, value, mask);
    return value;
}

// residual += input; input = residual / rms(residual) * weight. A block for each token.
template <typename T, int BLOCK>
__global__ void fused_add_rms_norm(T* input, T* residual, const T* weight, float epsilon, int hidden)
{
    __shared__ float partial[BLOCK / 32];
    const int64_t row = int64_t(blockIdx.x) * hidden;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < hidden; i += BLOCK) {
        const T added = __hadd(input[row + i], residual[row + i]);
        residual[row + i] = added;
        sum += __half2float(added) * __half2float(added);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    float total = 0.0f;
    for (int warp = 0; warp < BLOCK / 32; ++warp) total += partial[warp];
    const float scale = rsqrtf(total / hidden + epsilon);
    for (int i = threadIdx.x; i < hidden; i += BLOCK)
        input[row + i] = T(__half2float(residual[row + i]) * scale * __half2float(weight[i]));
}

} // namespace llm
