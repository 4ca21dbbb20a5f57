#if __cplusplus < 202002L
#error C++20 or later compatible compiler is required.
#endif
constexpr int three() { return 3; }
template <class F> __global__ void apply(float* y, F f) { y[threadIdx.x] = f(threadIdx.x); }
__global__ void fill(float* y) { y[threadIdx.x] = three(); }
void launch(float* y) { apply<<<1, 32>>>(y, [] __device__(int i) { return 1.0f; }); }
