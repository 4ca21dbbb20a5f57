// Softmax of each row: y[i,j] = exp(x[i,j] - max_j x[i,j]) / sum_j exp(x[i,j] - max_j x[i,j])
//
// x, y   f32 [rows, columns] row-major, columns >= 1. y may be x.
//
// Launch: grid [rows], block [THREADS], no dynamic shared memory.
//
// One block per row. Three passes: maximum, sum, result. The row is read three times, but only the
// first time from beyond the caches. A thread takes
// columns t, t + THREADS, ... and the reductions combine in a fixed order, so the bits are the same on
// every run. A row of nothing but -inf has no softmax: it gives NaN, as the formula does.
#include "common.cuh"

#ifndef THREADS
#define THREADS 256      // a multiple of 32, at most 1024
#endif

__global__ void __launch_bounds__(THREADS) row_softmax(const float* x, float* y, int columns)
{
    const float* const in = x + size_t(blockIdx.x) * columns;
    float* const out = y + size_t(blockIdx.x) * columns;

    float maximum = -INFINITY;
    for (int j = threadIdx.x; j < columns; j += THREADS) maximum = fmaxf(maximum, in[j]);
    maximum = block_reduce<THREADS>(maximum, Max{});

    float sum = 0.0f;
    for (int j = threadIdx.x; j < columns; j += THREADS) sum += expf(in[j] - maximum);
    sum = block_reduce<THREADS>(sum, Sum{});

    const float inverse = 1.0f / sum;
    for (int j = threadIdx.x; j < columns; j += THREADS) out[j] = expf(in[j] - maximum) * inverse;
}
