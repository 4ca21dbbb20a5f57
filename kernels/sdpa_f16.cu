// Fused attention over f16 inputs with f32 accumulation and f32 output:
//
//   out[b,h,i,:] = sum_j softmax_j(q[b,h,i,:] . k[b,h,j,:] / sqrt(D)) v[b,h,j,:]       D = 64
//
// q, k, v   f16 [B, H, S, D] contiguous, 16-byte aligned
// out       f32 [B, H, S, D] contiguous. Not f16: half an ulp of an f16 in [2, 4) is 9.8e-4, all of
//           the tolerance of 1e-3, and causal rows with few keys do reach that range.
//
// Launch: grid [ceil_div(S, BLOCK_M), H, B], block [NUM_WARPS * 32],
//         dynamic shared memory BLOCK_M * 420 + 18432 bytes (SHARED_BYTES below). S >= 1.
//
// The work on one tile of keys and values falls into five phases, and SYNC_POLICY says which of them
// end with a barrier of the block. A warp owns its queries from start to end, so only the tiles of K
// and V pass between warps:
//
// SYNC_POLICY 5   a barrier after every phase
//             2   only what correctness needs: after LOAD, because warps read what others loaded, and
//                 after ACCUMULATE, because the next LOAD overwrites what others may still read
//             0   all but the one after loading Q removed. WRONG ON PURPOSE: a race that a gate has
//                 to catch. Never use it for anything else.
//
// USE_WMMA 1 does both products on tensor cores and needs BLOCK_M / NUM_WARPS of 8, 16 or 32; USE_WMMA
// 0 does them with f32 FMAs and takes any. CAUSAL 1 masks keys after the query.
// BLOCK_M 128 takes 72192 bytes of shared memory, more than the 48 KiB that a launch gets without
// opting in.
#include <type_traits>
#include "attention.cuh"

#ifndef BLOCK_M
#define BLOCK_M 64       // queries per block: 32, 64 or 128
#endif
#ifndef NUM_WARPS
#define NUM_WARPS 8      // 4 or 8
#endif
#ifndef SYNC_POLICY
#define SYNC_POLICY 2
#endif
#ifndef USE_WMMA
#define USE_WMMA 1
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif
static_assert(BLOCK_M == 32 || BLOCK_M == 64 || BLOCK_M == 128, "BLOCK_M is 32, 64 or 128");
static_assert(NUM_WARPS == 4 || NUM_WARPS == 8, "NUM_WARPS is 4 or 8");
static_assert(SYNC_POLICY == 0 || SYNC_POLICY == 2 || SYNC_POLICY == 5, "SYNC_POLICY is 0, 2 or 5");

constexpr int THREADS = NUM_WARPS * WARP_SIZE;
constexpr int WARP_ROWS = BLOCK_M / NUM_WARPS;
using Output = std::conditional_t<USE_WMMA, OutputWmma<WARP_ROWS>, OutputFma<WARP_ROWS, false>>;
using Softmax = OnlineSoftmax<WARP_ROWS, Output::Weight>;

struct alignas(32) Shared {  // WMMA wants 32-byte aligned tiles
    __half q[BLOCK_M * TILE_STRIDE];
    __half k[BLOCK_N * TILE_STRIDE];
    __half v[BLOCK_N * TILE_STRIDE];
    float strips[BLOCK_M * SCORE_STRIDE];  // S and P, attention.cuh
    float row_factor[BLOCK_M];
};
constexpr int SHARED_BYTES = BLOCK_M * 420 + 18432;
static_assert(sizeof(Shared) == SHARED_BYTES, "what the launch is told to ask for");

enum Phase { LOAD_Q, LOAD, SCORES, SOFTMAX, RESCALE, ACCUMULATE };

__host__ __device__ constexpr bool has_barrier(Phase phase)
{
    return SYNC_POLICY == 5   ? true
           : SYNC_POLICY == 2 ? phase == LOAD || phase == ACCUMULATE  // the first LOAD covers LOAD_Q
                              : phase == LOAD_Q;
}

template <Phase PHASE>
__device__ __forceinline__ void end_of()
{
    if constexpr (has_barrier(PHASE)) __syncthreads();
    else __syncwarp();  // lanes exchange data through the warp's strip
}

// 65536 registers shared out: 64 for each of 1024 threads, or 128 for each of 512.
constexpr int RESIDENT_THREADS = USE_WMMA && WARP_ROWS == 8 ? 1024 : 512;

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_THREADS / THREADS)
sdpa_f16(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
         float* __restrict__ out, int heads, int seq_len)
{
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    Shared& shared = *reinterpret_cast<Shared*>(dynamic_shared);

    const size_t head_start = size_t(blockIdx.z * heads + blockIdx.y) * seq_len * HEAD_DIM;
    const int block_query = blockIdx.x * BLOCK_M;
    const int warp_row = threadIdx.x / WARP_SIZE * WARP_ROWS;    // first row of this warp in the block
    const int first_query = block_query + warp_row;
    const __half* const warp_q = shared.q + warp_row * TILE_STRIDE;
    float* const strip = shared.strips + warp_row * SCORE_STRIDE;
    float* const row_factor = shared.row_factor + warp_row;

    load_halves<BLOCK_M, THREADS>(shared.q, q + head_start + size_t(block_query) * HEAD_DIM, seq_len - block_query, threadIdx.x);
    end_of<LOAD_Q>();

    // Keys that this lane's row of the softmax may see, and that any row of the block may see.
    const int row_keys = CAUSAL ? min(seq_len, first_query + Softmax::row() + 1) : seq_len;
    const int block_keys = CAUSAL ? min(seq_len, block_query + BLOCK_M) : seq_len;

    Softmax softmax;
    Output output;
    for (int first_key = 0; first_key < block_keys; first_key += BLOCK_N) {
        const size_t tile_start = head_start + size_t(first_key) * HEAD_DIM;
        load_halves<BLOCK_N, THREADS>(shared.k, k + tile_start, seq_len - first_key, threadIdx.x);
        load_halves<BLOCK_N, THREADS>(shared.v, v + tile_start, seq_len - first_key, threadIdx.x);
        end_of<LOAD>();

#if USE_WMMA
        using Mma = WarpMma<WARP_ROWS>;
        scores_wmma<WARP_ROWS>(strip, [&](int i) {
            typename Mma::A fragment;  // read again for every use: registers are what is scarce here
            wmma::load_matrix_sync(fragment, warp_q + i * Mma::K, TILE_STRIDE);
            return fragment;
        }, shared.k);
#else
        scores_scalar<WARP_ROWS>(strip, warp_q, shared.k);
#endif
        end_of<SCORES>();

        softmax.update(strip, row_factor, SOFTMAX_SCALE * LOG2_E, row_keys - first_key);
        end_of<SOFTMAX>();

        output.rescale(row_factor);
        end_of<RESCALE>();

        output.accumulate(strip, shared.v);
        end_of<ACCUMULATE>();
    }

    softmax.finish(row_factor, 1.0f);
    __syncwarp();
    output.rescale(row_factor);
    output.store(out + head_start + size_t(first_query) * HEAD_DIM, strip, seq_len - first_query);
}
