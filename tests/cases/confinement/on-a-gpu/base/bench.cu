#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

int other();

#define OK(call)                                                                                   \
    do {                                                                                           \
        const cudaError_t error = (call);                                                          \
        if (error != cudaSuccess) {                                                                \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                    \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

__global__ void scale(const float* x, float* y, int n, float by)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * by;
}

int main()
{
    constexpr int n = 1000;
    float *x, *y, *pinned, *managed;
    OK(cudaMalloc(&x, n * sizeof(float)));
    OK(cudaMalloc(&y, n * sizeof(float)));
    OK(cudaMallocHost(&pinned, n * sizeof(float)));
    OK(cudaMallocManaged(&managed, n * sizeof(float)));
    for (int i = 0; i < n; ++i) pinned[i] = managed[i] = float(i);
    cudaIpcEventHandle_t of_event;
    cudaEvent_t event;
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
    OK(cudaIpcGetEventHandle(&of_event, event));
    OK(cudaMemcpy(x, pinned, n * sizeof(float), cudaMemcpyHostToDevice));
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([=] {
            cudaStream_t stream;
            OK(cudaStreamCreate(&stream));
            OK(cudaMemcpyAsync(y, managed, n * sizeof(float), cudaMemcpyDefault, stream));
            OK(cudaStreamSynchronize(stream));
        });
    for (std::thread& thread : threads) thread.join();
    scale<<<4, 256>>>(x, y, n, 3.0f);
    OK(cudaDeviceSynchronize());
    void* pool;
    OK(cudaMallocAsync(&pool, 1 << 20, nullptr));
    OK(cudaFreeAsync(pool, nullptr));
    OK(cudaDeviceSynchronize());
    return other() == 7 ? 0 : 2;
}
