// Sum of each row: y[i] = sum_j x[i,j]. With one row: the sum of everything.
//
// x   f32 [rows, columns] row-major, columns >= 0        y   f32 [rows]
//
// Launch: grid [rows], block [THREADS], no dynamic shared memory.
//
// One block per row and no atomics: each thread adds columns t, t + THREADS, ... in four interleaved
// partial sums, and the block combines them in a fixed order. So the bits are the same on every run,
// and the error grows with columns / (4 THREADS), not with columns. One long array keeps one
// multiprocessor busy and no more; to use them all, run this twice: over the array seen as
// [rows, columns], then over the partial sums seen as [1, rows]. The order stays fixed.
#include "common.cuh"

#ifndef THREADS
#define THREADS 512      // a multiple of 32, at most 1024
#endif

__global__ void __launch_bounds__(THREADS) reduce_sum(const float* __restrict__ x, float* __restrict__ y, int columns)
{
    constexpr int WAYS = 4;  // independent additions, and loads, in flight per thread
    const float* const in = x + size_t(blockIdx.x) * columns;

    float partial[WAYS] = {};
    int j = threadIdx.x;
    for (; j + (WAYS - 1) * THREADS < columns; j += WAYS * THREADS)
        #pragma unroll
        for (int way = 0; way < WAYS; ++way) partial[way] += in[j + way * THREADS];
    for (; j < columns; j += THREADS) partial[0] += in[j];

    const float sum = block_reduce<THREADS>((partial[0] + partial[1]) + (partial[2] + partial[3]), Sum{});
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
