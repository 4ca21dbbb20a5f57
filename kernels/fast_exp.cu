// Measures the error of fast_exp.cuh: ratio[i] = one[i] * exp2_polynomial(x[i]) / 2^x[i]. Where one[i] is 1,
// its distance from that is the relative error. exp2f() errs by 2 ulp, 2.4e-7.
//
// Launch: grid [ceil_div(n, 256)], block [256]
#include "fast_exp.cuh"

extern "C" __global__ void fast_exp_ratio(const float* __restrict__ x, const float* __restrict__ one,
                                          float* __restrict__ ratio, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) ratio[i] = one[i] * exp2_polynomial(x[i]) / exp2f(x[i]);
}
