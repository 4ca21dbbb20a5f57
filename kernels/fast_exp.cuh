// Computes 2^x on the FMA units. The hardware's ex2 comes from a unit that yields 16 results a cycle
// and SM, and attention over 64-element heads needs as many cycles of it as of the tensor cores.
#pragma once
#include "common.cuh"

// Returns 2^x = 2^i 2^f with i = round(x) and f in [-1/2, 1/2]. 2^f is the polynomial of degree 3 with
// the least greatest relative error, 7.5e-5 (Lawson's iteration in float64; weights that are made with
// it are rounded to f16, which errs by up to 4.9e-4). x <= 126; below -125 the result is 2^-125.
__device__ __forceinline__ float exp2_polynomial(float x)
{
    x = fmaxf(x, -125.0f);
    constexpr float ROUNDS = 12582912.0f;  // 1.5 * 2^23: adding it leaves round(x) in the low bits
    const float shifted = x + ROUNDS;
    const float f = x - (shifted - ROUNDS);
    const float p = fmaf(fmaf(fmaf(0.0551716685f, f, 0.242611125f), f, 0.693260968f), f, 0.999928057f);
    return __int_as_float(__float_as_int(p) + (__float_as_int(shifted) << 23));  // times 2^i
}
