// Attention of one query for each head over a long row of keys. The keys are split over blocks, and a second kernel
// combines what the splits have found.
#include <cuda_runtime.h>
#include <math_constants.h>

constexpr int D = 64;

// grid (splits, heads), D threads; dynamic shared memory for the scores of one split.
__global__ void attend(const float* q, const float* k, const float* v, float* part, float* top, float* sum, int keys,
                       float scale)
{
    extern __shared__ float score[];
    const int each = (keys + gridDim.x - 1) / gridDim.x;
    const int first = blockIdx.x * each;
    const int count = max(0, min(each, keys - first));
    const float* query = q + blockIdx.y * D;
    const size_t row = (size_t)blockIdx.y * keys + first;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = D / 32;

    for (int i = warp; i < count; i += warps) {
        float dot = 0;
        for (int d = lane; d < D; d += 32) dot += query[d] * k[(row + i) * D + d];
        for (int far = 16; far > 0; far /= 2) dot += __shfl_xor_sync(~0u, dot, far);
        if (lane == 0) score[i] = dot * scale;
    }
    __syncthreads();

    float most = -CUDART_INF_F;
    for (int i = 0; i < count; ++i) most = fmaxf(most, score[i]);
    float weights = 0, found = 0;
    for (int i = 0; i < count; ++i) {
        const float weight = expf(score[i] - most);
        weights += weight;
        found += weight * v[(row + i) * D + threadIdx.x];
    }
    const int at = blockIdx.y * gridDim.x + blockIdx.x;
    part[at * D + threadIdx.x] = found;
    if (threadIdx.x == 0) {
        top[at] = most;
        sum[at] = weights;
    }
}

// grid (heads), D threads
__global__ void combine(const float* part, const float* top, const float* sum, float* out, int splits)
{
    const int first = blockIdx.x * splits;
    float most = -CUDART_INF_F;
    for (int s = 0; s < splits; ++s) most = fmaxf(most, top[first + s]);
    float weights = 0, found = 0;
    for (int s = 0; s < splits; ++s) {
        const float weight = expf(top[first + s] - most);
        weights += weight * sum[first + s];
        found += weight * part[(first + s) * D + threadIdx.x];
    }
    out[blockIdx.x * D + threadIdx.x] = found / weights;
}
