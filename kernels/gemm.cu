// C = A B in f32, for any M, N, K >= 1.
//
// a   f32 [M, K] row-major        c   f32 [M, N] row-major
// b   f32 [K, N] row-major
//
// Launch: grid [ceil_div(N, TILE_N), ceil_div(M, TILE_M)], block [256], no dynamic shared memory.
//
// A block computes one TILE_M x TILE_N tile of C, walking over K in steps of TILE_K. Per step it
// brings a TILE_M x TILE_K piece of A and a TILE_K x TILE_N piece of B to shared memory, where each
// element is used TILE_N or TILE_M times. A thread keeps a 4 x 4 patch of C in registers: 16 FMAs for
// two 16-byte reads. Elements outside A or B are filled with zeros, which add nothing; what lies
// outside C is not stored. So a ragged M, N or K needs no second path.
#include "common.cuh"

#ifndef TILE_K
#define TILE_K 16        // 8, 16 or 32
#endif

constexpr int TILE_M = 64;
constexpr int TILE_N = 64;
constexpr int PATCH = 4;
constexpr int THREADS = (TILE_M / PATCH) * (TILE_N / PATCH);
static_assert(TILE_K == 8 || TILE_K == 16 || TILE_K == 32, "TILE_K is 8, 16 or 32");

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k)
{
    // A lies transposed, so that a thread's four rows are 16 contiguous bytes. The padding keeps the
    // transposing stores of a warp out of one another's banks.
    __shared__ __align__(16) float tile_a[TILE_K][TILE_M + 4];
    __shared__ __align__(16) float tile_b[TILE_K][TILE_N];

    const int first_row = blockIdx.y * TILE_M;
    const int first_column = blockIdx.x * TILE_N;
    const int patch_row = threadIdx.x / (TILE_N / PATCH) * PATCH;
    const int patch_column = threadIdx.x % (TILE_N / PATCH) * PATCH;

    float sum[PATCH][PATCH] = {};
    for (int first_k = 0; first_k < k; first_k += TILE_K) {
        for (int i = threadIdx.x; i < TILE_M * TILE_K; i += THREADS) {
            const int row = i / TILE_K, depth = i % TILE_K;
            const bool inside = first_row + row < m && first_k + depth < k;
            tile_a[depth][row] = inside ? a[size_t(first_row + row) * k + first_k + depth] : 0.0f;
        }
        for (int i = threadIdx.x; i < TILE_K * TILE_N; i += THREADS) {
            const int depth = i / TILE_N, column = i % TILE_N;
            const bool inside = first_k + depth < k && first_column + column < n;
            tile_b[depth][column] = inside ? b[size_t(first_k + depth) * n + first_column + column] : 0.0f;
        }
        __syncthreads();  // both pieces are complete

        #pragma unroll
        for (int depth = 0; depth < TILE_K; ++depth) {
            const float4 a4 = *reinterpret_cast<const float4*>(&tile_a[depth][patch_row]);
            const float4 b4 = *reinterpret_cast<const float4*>(&tile_b[depth][patch_column]);
            const float rows[PATCH] = {a4.x, a4.y, a4.z, a4.w};
            const float columns[PATCH] = {b4.x, b4.y, b4.z, b4.w};
            #pragma unroll
            for (int i = 0; i < PATCH; ++i)
                #pragma unroll
                for (int j = 0; j < PATCH; ++j) sum[i][j] = fmaf(rows[i], columns[j], sum[i][j]);
        }
        __syncthreads();  // both pieces may be overwritten
    }

    #pragma unroll
    for (int i = 0; i < PATCH; ++i)
        #pragma unroll
        for (int j = 0; j < PATCH; ++j) {
            const int row = first_row + patch_row + i, column = first_column + patch_column + j;
            if (row < m && column < n) c[size_t(row) * n + column] = sum[i][j];
        }
}
