#include <cuda_fp16.h>

struct Params {
    int batch, dim, len, width, unused;
    unsigned x_batch_stride, x_c_stride, x_l_stride;
    unsigned weight_c_stride, weight_width_stride;
    unsigned y_batch_stride, y_c_stride, y_l_stride;
    void *x, *weight, *bias, *y;
};

template <int THREADS, int kWidth_, typename input_t_> struct Traits {
    using input_t = input_t_;
    static constexpr int kThreads = THREADS;
    static constexpr int kWidth = kWidth_;
    struct Room {
        float edge[kWidth * 2];
        input_t all[THREADS * 2];
    };
    static constexpr int kBytes = sizeof(Room);
};

template <typename Traits> __global__ void conv(const __grid_constant__ Params params)
{
    using input_t = typename Traits::input_t;
    extern __shared__ char room[];
    input_t *all = reinterpret_cast<input_t *>(room);
    const input_t *x = reinterpret_cast<input_t *>(params.x) + blockIdx.x * params.x_batch_stride + blockIdx.y * params.x_c_stride;
    const float *weight = reinterpret_cast<float *>(params.weight) + blockIdx.y * params.weight_c_stride;
    input_t *y = reinterpret_cast<input_t *>(params.y) + blockIdx.x * params.y_batch_stride + blockIdx.y * params.y_c_stride;
    const float bias = params.bias == nullptr ? 0.f : reinterpret_cast<float *>(params.bias)[blockIdx.y];
    for (int start = 0; start < params.len; start += Traits::kThreads) {
        const int i = start + threadIdx.x;
        all[threadIdx.x] = i < params.len ? x[i * params.x_l_stride] : input_t(0.f);
        __syncthreads();
        float sum = bias;
        for (int w = 0; w < Traits::kWidth; ++w)
            sum += float(all[(threadIdx.x + w) % Traits::kThreads]) * weight[w * params.weight_width_stride];
        if (i < params.len) y[i * params.y_l_stride] = input_t(sum);
        __syncthreads();
    }
}

template <int kThreads, int kWidth, typename input_t> void launch(const Params &params, cudaStream_t stream)
{
    using Own = Traits<kThreads, kWidth, input_t>;
    constexpr int kBytes = Own::kBytes;
    dim3 grid(params.batch, params.dim);
    auto kernel = &conv<Own>;
    kernel<<<grid, Own::kThreads, kBytes, stream>>>(params);
}
template void launch<32, 4, __half>(const Params &, cudaStream_t);
template void launch<32, 4, float>(const Params &, cudaStream_t);
