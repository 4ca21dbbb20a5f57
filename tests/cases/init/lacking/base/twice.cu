#include <cublas_v2.h>
#ifndef BLOCK
#error "BLOCK"
#endif
static_assert(__cplusplus >= 202002L);
__global__ void twice(const float* x, float* y, int n)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) y[i] = 2 * x[i] * HANDLE;
}
