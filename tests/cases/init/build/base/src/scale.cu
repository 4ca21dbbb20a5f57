#include "kernels.h"
#include <unit.h>
static_assert(__cplusplus >= 202002L);
__global__ void scale(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i] * UNIT;
}
#ifdef OFF
#error "the build undefines it"
#endif
