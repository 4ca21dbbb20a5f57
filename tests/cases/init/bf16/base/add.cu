#include <cuda_bf16.h>
__global__ void add(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __float2bfloat16(__bfloat162float(a[i]) + __bfloat162float(b[i]));
}
