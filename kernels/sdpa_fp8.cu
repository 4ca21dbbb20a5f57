// Fused attention over 8-bit inputs, FP16 arithmetic with FP32 accumulation, f16 output:
//
//   out[b,h,i,:] = sum_j softmax_j(q[b,h,i,:] . k[b,h,j,:] / sqrt(D)) v[b,h,j,:]       D = 64
//
// q, k, v   codes, u8 [B, H, S, D] contiguous, 16-byte aligned (codec.cuh says what a code means)
// *_scale   f32, amax / 448: [B, H] for CODEC 0 (e4m3), [H] for CODEC 1 (offset-binary u8)
// out       f16 [B, H, S, D] contiguous
//
// Launch: grid [ceil_div(S, BLOCK_M), H, B], block [NUM_WARPS * 32], no dynamic shared memory. S >= 1. From
// stage3 on sizeof(FusedShared) bytes of it, and a block has the producer warps besides.
//
// A block takes BLOCK_M queries of one head and walks over the keys and values in tiles of BLOCK_N.
// A warp owns BLOCK_M / NUM_WARPS queries from start to end (attention.cuh), so warps meet only where
// they share something: the decoded tiles of K and V. Two barriers per tile.
//
// Scales never touch an element. s_q s_k goes into the softmax scale, s_v into the final 1 / l; the
// decoded codes are exact in f16, and the only roundings left are those of P (USE_WMMA_PV) and out.
//
// Variant   macros                          adds
// direct    -                               tensor cores for Q K^T; K and V are loaded when they are
//                                           needed, code by code, and the block waits for them
// wide      USE_WIDE_LOADS=1                16 codes per load
// stage1    USE_CP_ASYNC=1                  the next tile's codes are on their way while this one is
//                                           computed: one tile in flight, one decoded and in use
// vec_pv    USE_CP_ASYNC=1 USE_VEC_PV=1     the values for P V are read as half2
// stage2    USE_CP_ASYNC=1 USE_WMMA_PV=1    tensor cores for P V
// stage3    + USE_FUSED_SOFTMAX=1           scores and weights in registers (sdpa_fp8_fused.cuh)
// stage4    + USE_CP_ASYNC_STAGES=3         two tiles of codes on their way
// stage5    + USE_WARP_SPECIALIZATION=1     NUM_PRODUCER_WARPS load and decode, the others compute
// and, on top of stage4:
// persistent  + USE_PERSISTENT_CTA=1        blocks take query tiles from a queue
// fast_exp    + USE_FAST_EXP=1              exponentials as a polynomial (fast_exp.cuh)
// swizzle     + USE_SMEM_SWIZZLE_XOR=1      tiles of halves swizzled, not padded
// causal      + CAUSAL=1                    a query sees no key after it
#include <type_traits>
#if USE_FAST_EXP
#define FAST_EXP_SHARE 8
#endif
#include "attention.cuh"

#ifndef CODEC
#define CODEC 0          // 0 e4m3, 1 offset-binary u8
#endif
#ifndef USE_WIDE_LOADS
#define USE_WIDE_LOADS 0
#endif
#ifndef USE_CP_ASYNC
#define USE_CP_ASYNC 0
#endif
#ifndef USE_VEC_PV
#define USE_VEC_PV 0
#endif
#ifndef USE_WMMA_PV
#define USE_WMMA_PV 0
#endif
#ifndef BLOCK_M
#define BLOCK_M 64       // queries per block: 32 or 64
#endif
#ifndef NUM_WARPS
#define NUM_WARPS 8      // BLOCK_M / NUM_WARPS is 8, or 16 (which may spill at 128 registers)
#endif

#ifndef USE_FUSED_SOFTMAX
#define USE_FUSED_SOFTMAX 0
#endif
#ifndef USE_CP_ASYNC_STAGES
#define USE_CP_ASYNC_STAGES 2    // 2 or 3
#endif
#ifndef USE_WARP_SPECIALIZATION
#define USE_WARP_SPECIALIZATION 0
#endif
#ifndef NUM_PRODUCER_WARPS
#define NUM_PRODUCER_WARPS 1     // 1 or 2
#endif
#ifndef USE_PERSISTENT_CTA
#define USE_PERSISTENT_CTA 0
#endif
#ifndef USE_FAST_EXP
#define USE_FAST_EXP 0
#endif
#ifndef USE_SMEM_SWIZZLE_XOR
#define USE_SMEM_SWIZZLE_XOR 0
#endif
#ifndef CAUSAL
#define CAUSAL 0         // 1 masks keys after the query
#endif
static_assert(USE_CP_ASYNC_STAGES == 2 || USE_CP_ASYNC_STAGES == 3, "USE_CP_ASYNC_STAGES is 2 or 3");
static_assert(NUM_PRODUCER_WARPS == 1 || NUM_PRODUCER_WARPS == 2, "NUM_PRODUCER_WARPS is 1 or 2");
static_assert(!USE_FUSED_SOFTMAX || (USE_CP_ASYNC && USE_WMMA_PV), "a fused softmax builds on stage2");
static_assert(USE_FUSED_SOFTMAX || (USE_CP_ASYNC_STAGES == 2 && !USE_WARP_SPECIALIZATION && !USE_PERSISTENT_CTA &&
                                    !USE_FAST_EXP && !USE_SMEM_SWIZZLE_XOR && !CAUSAL), "the later stages build on stage3");
static_assert(!(USE_PERSISTENT_CTA && USE_WARP_SPECIALIZATION),
              "the queue's barriers are for all threads, and producers are ahead of the others");

#if USE_FUSED_SOFTMAX
#include "sdpa_fp8_fused.cuh"

// 65536 registers are shared: 128 for each of 512 threads, or 120 where warps are specialised.
extern "C" __global__ void
#if USE_WARP_SPECIALIZATION
__maxnreg__(120)
#else
__launch_bounds__(FUSED_THREADS, 512 / FUSED_THREADS)
#endif
sdpa_fp8(const uint8_t* __restrict__ q, const uint8_t* __restrict__ k, const uint8_t* __restrict__ v,
         const float* __restrict__ q_scale, const float* __restrict__ k_scale, const float* __restrict__ v_scale,
         __half* __restrict__ out, int heads, int seq_len)
{
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    attend_all(Problem{q, k, v, q_scale, k_scale, v_scale, out, heads, seq_len},
               *reinterpret_cast<FusedShared*>(dynamic_shared));
}

#else

constexpr int THREADS = NUM_WARPS * WARP_SIZE;
constexpr int WARP_ROWS = BLOCK_M / NUM_WARPS;
static_assert(!(USE_WIDE_LOADS && USE_CP_ASYNC), "cp.async is wide as it is");
static_assert(!(USE_VEC_PV && USE_WMMA_PV), "one way to do P V");
using Output = std::conditional_t<USE_WMMA_PV, OutputWmma<WARP_ROWS>, OutputFma<WARP_ROWS, USE_VEC_PV>>;
using Softmax = OnlineSoftmax<WARP_ROWS, Output::Weight>;

struct alignas(32) Shared {  // WMMA wants 32-byte aligned tiles
    float strips[BLOCK_M * SCORE_STRIDE];  // S and P; before the first tile the queries
    float row_factor[BLOCK_M];
    __half k[BLOCK_N * TILE_STRIDE];
    __half v[BLOCK_N * TILE_STRIDE];
#if USE_CP_ASYNC
    uint8_t raw_k[BLOCK_N * HEAD_DIM];     // codes in flight
    uint8_t raw_v[BLOCK_N * HEAD_DIM];
#endif
};
static_assert(sizeof(Shared) <= 48 * 1024, "what a block gets without asking for more");

// Brings K and V tile by tile from codes in global memory to halves in shared memory.
struct TileSource {
    const uint8_t* k;  // row 0 of this head
    const uint8_t* v;
    int seq_len;
    Shared& shared;

#if USE_CP_ASYNC
    // Starts the copy of the codes of the tile at first_key.
    __device__ __forceinline__ void start(int first_key)
    {
        const int valid = seq_len - first_key;
        start_copy_of_codes<BLOCK_N, THREADS>(shared.raw_k, k + size_t(first_key) * HEAD_DIM, valid, threadIdx.x);
        start_copy_of_codes<BLOCK_N, THREADS>(shared.raw_v, v + size_t(first_key) * HEAD_DIM, valid, threadIdx.x);
        cp_async_commit();
    }

    // Decodes the tile at first_key, and starts the copy of the tile after it.
    __device__ __forceinline__ void fetch(int first_key)
    {
        cp_async_wait<0>();
        __syncthreads();  // all warps are done with the decoded tiles
        decode_copied_codes<CODEC, BLOCK_N, THREADS>(shared.k, shared.raw_k, threadIdx.x);
        decode_copied_codes<CODEC, BLOCK_N, THREADS>(shared.v, shared.raw_v, threadIdx.x);
        __syncthreads();  // the new tiles are complete
        if (first_key + BLOCK_N < seq_len) start(first_key + BLOCK_N);
    }
#else
    __device__ __forceinline__ void start(int) {}

    __device__ __forceinline__ void fetch(int first_key)
    {
        __syncthreads();  // all warps are done with the decoded tiles
        load(shared.k, k + size_t(first_key) * HEAD_DIM, seq_len - first_key);
        load(shared.v, v + size_t(first_key) * HEAD_DIM, seq_len - first_key);
        __syncthreads();  // the new tiles are complete
    }

private:
    static __device__ __forceinline__ void load(__half* tile, const uint8_t* codes, int valid_rows)
    {
        if constexpr (USE_WIDE_LOADS) load_codes<CODEC, BLOCK_N, THREADS>(tile, codes, valid_rows, threadIdx.x);
        else load_codes_one_by_one<CODEC, BLOCK_N, THREADS>(tile, codes, valid_rows, threadIdx.x);
    }
#endif
};

extern "C" __global__ void __launch_bounds__(THREADS, 512 / THREADS)  // 65536 registers for 512 threads: 128 each
sdpa_fp8(const uint8_t* __restrict__ q, const uint8_t* __restrict__ k, const uint8_t* __restrict__ v,
         const float* __restrict__ q_scale, const float* __restrict__ k_scale, const float* __restrict__ v_scale,
         __half* __restrict__ out, int heads, int seq_len)
{
    __shared__ Shared shared;

    const int head = blockIdx.y;
    const int batch_head = blockIdx.z * heads + head;
    const size_t head_start = size_t(batch_head) * seq_len * HEAD_DIM;
    const int scale_index = CODEC == CODEC_E4M3 ? batch_head : head;

    const int warp = threadIdx.x / WARP_SIZE;
    const int lane = threadIdx.x % WARP_SIZE;
    const int first_query = blockIdx.x * BLOCK_M + warp * WARP_ROWS;  // of this warp
    const int valid_queries = seq_len - first_query;                  // may be <= 0: then nothing is stored
    float* const strip = shared.strips + warp * WARP_ROWS * SCORE_STRIDE;
    float* const row_factor = shared.row_factor + warp * WARP_ROWS;

    TileSource tiles{k + head_start, v + head_start, seq_len, shared};
    tiles.start(0);

    // The queries stay in registers as fragments for the whole kernel.
    using Mma = WarpMma<WARP_ROWS>;
    typename Mma::A query[HEAD_DIM / Mma::K];
    __half* const staged = reinterpret_cast<__half*>(strip);
    load_codes<CODEC, WARP_ROWS, WARP_SIZE>(staged, q + head_start + ptrdiff_t(first_query) * HEAD_DIM, valid_queries, lane);
    __syncwarp();
    #pragma unroll
    for (int i = 0; i < HEAD_DIM / Mma::K; ++i)
        wmma::load_matrix_sync(query[i], staged + i * Mma::K, TILE_STRIDE);
    __syncwarp();

    constexpr float unit = CODEC_UNIT<CODEC>;
    const float scale_log2 = q_scale[scale_index] * unit * (k_scale[scale_index] * unit) * SOFTMAX_SCALE * LOG2_E;

    Softmax softmax;
    Output output;
    for (int first_key = 0; first_key < seq_len; first_key += BLOCK_N) {
        tiles.fetch(first_key);
        scores_wmma<WARP_ROWS>(strip, [&](int i) -> const typename Mma::A& { return query[i]; }, shared.k);
        __syncwarp();
        softmax.update(strip, row_factor, scale_log2, seq_len - first_key);
        __syncwarp();
        output.rescale(row_factor);
        output.accumulate(strip, shared.v);
        __syncwarp();
    }

    softmax.finish(row_factor, v_scale[scale_index] * unit);
    __syncwarp();
    output.rescale(row_factor);
    output.store(out + head_start + ptrdiff_t(first_query) * HEAD_DIM, strip, valid_queries);
}
#endif
