// Fused attention over f16 inputs with f32 accumulation and f32 output:
//
//   out[b,h,i,:] = sum_j softmax_j(q[b,h,i,:] . k[b,h,j,:] / sqrt(D)) v[b,h,j,:]
//
// q         f16 [B, H, S, D] contiguous, 16-byte aligned; D = HEAD_SIZE
// k, v      f16 [B, H / GROUP, S, D], likewise: GROUP heads of queries share a head of keys and values
// out       f32 [B, H, S, D] contiguous. Not f16: half an ulp of an f16 in [2, 4) is 9.8e-4, all of
//           the tolerance of 1e-3, and causal rows with few keys do reach that range.
//
// Launch: grid [ceil_div(S, BLOCK_M), H, B], block [NUM_WARPS * 32], dynamic shared memory
//         SHARED_BYTES, below. S >= 1.
//
// The work on one tile of keys and values falls into phases, and SYNC_POLICY says which of them end with
// a barrier of the block. A warp owns its queries from start to end, so only the tiles of K and V pass
// between warps:
//
// SYNC_POLICY 5   a barrier after every phase
//             2   only what correctness needs: after LOAD, because warps read what others loaded, and
//                 after ACCUMULATE, because the next LOAD overwrites what others may still read
//             0   all but the one after loading Q removed. WRONG ON PURPOSE: a race that a gate has
//                 to catch. Never use it for anything else.
//
// How the two products are done:
//
// USE_WMMA 1       on tensor cores; scores pass through shared memory (attention.cuh). BLOCK_M /
//                  NUM_WARPS is 8, 16 or 32
// USE_WMMA 0       with f32 FMAs, any BLOCK_M / NUM_WARPS
// USE_MMA_SYNC 1   on tensor cores, everything in registers (warp_attention.cuh), cp.async with
//                  SMEM_STAGE tiles in shared memory
//
// Where scores pass through shared memory, REDUCE says who finds the maximum and the sum of a row:
//
// REDUCE 1         all lanes of the warp, 32 / rows of them for each row
//        0         one lane for each row, one score after the other
//
// CAUSAL 1 masks keys after the query.
#include <type_traits>
#include "attention.cuh"
#include "warp_attention.cuh"

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
#ifndef USE_MMA_SYNC
#define USE_MMA_SYNC 0
#endif
#ifndef VEC_WIDTH
#define VEC_WIDTH 8      // halves per load of a tile: 2, 4 or 8
#endif
#ifndef SMEM_STAGE
#define SMEM_STAGE (USE_MMA_SYNC ? 2 : 1)   // tiles of keys and values in shared memory: 1, 2 or 3
#endif
#ifndef SWIZZLE_XOR
#define SWIZZLE_XOR USE_MMA_SYNC            // 0: rows of a tile are padded instead
#endif
#ifndef REDUCE
#define REDUCE (USE_MMA_SYNC || BLOCK_M / NUM_WARPS < 32)   // 1: by the warp, 0: by one lane
#endif
#ifndef GROUP
#define GROUP 1          // heads of queries for each head of keys and values
#endif
static_assert(BLOCK_M == 32 || BLOCK_M == 64 || BLOCK_M == 128, "BLOCK_M is 32, 64 or 128");
static_assert(NUM_WARPS == 4 || NUM_WARPS == 8, "NUM_WARPS is 4 or 8");
static_assert(VEC_WIDTH == 2 || VEC_WIDTH == 4 || VEC_WIDTH == 8, "VEC_WIDTH is 2, 4 or 8");
static_assert(SMEM_STAGE >= 1 && SMEM_STAGE <= 3, "SMEM_STAGE is 1, 2 or 3");
static_assert(!(USE_MMA_SYNC && SYNC_POLICY == 5),
              "with scores in the registers of one warp only LOAD and ACCUMULATE have anything to wait for");
static_assert(!(USE_MMA_SYNC && USE_WMMA), "one way to do the products: USE_WMMA or USE_MMA_SYNC");
static_assert(REDUCE == 0 || REDUCE == 1, "REDUCE is 0 or 1");
static_assert(REDUCE || !USE_MMA_SYNC, "with scores in registers a row is in four lanes, which have to reduce it together");
static_assert(!REDUCE || USE_MMA_SYNC || BLOCK_M / NUM_WARPS < 32,
              "a warp of 32 rows has one lane for each: nothing is left to reduce, REDUCE is 0");
static_assert(SYNC_POLICY == 0 || SYNC_POLICY == 2 || SYNC_POLICY == 5, "SYNC_POLICY is 0, 2 or 5");

constexpr int THREADS = NUM_WARPS * WARP_SIZE;

enum Phase { LOAD_Q, LOAD, SCORES, SOFTMAX, RESCALE, ACCUMULATE };

__host__ __device__ constexpr bool has_barrier(Phase phase)
{
    return SYNC_POLICY == 5   ? true
           : SYNC_POLICY == 2 ? phase == LOAD || phase == ACCUMULATE  // the first LOAD covers LOAD_Q
                              : phase == LOAD_Q;
}

#if !USE_MMA_SYNC
static_assert(SMEM_STAGE == 1 && !SWIZZLE_XOR && GROUP == 1 && HEAD_DIM == 64,
              "needs USE_MMA_SYNC: SMEM_STAGE, SWIZZLE_XOR, GROUP and HEAD_SIZE");
constexpr int WARP_ROWS = BLOCK_M / NUM_WARPS;
using Output = std::conditional_t<USE_WMMA, OutputWmma<WARP_ROWS>, OutputFma<WARP_ROWS, false>>;
using Softmax = std::conditional_t<REDUCE, OnlineSoftmax<WARP_ROWS, Output::Weight>,
                                   SerialSoftmax<WARP_ROWS, Output::Weight>>;

struct alignas(32) Shared {  // WMMA wants 32-byte aligned tiles
    __half q[BLOCK_M * TILE_STRIDE];
    __half k[BLOCK_N * TILE_STRIDE];
    __half v[BLOCK_N * TILE_STRIDE];
    float strips[BLOCK_M * SCORE_STRIDE];  // S and P, attention.cuh
    float row_factor[BLOCK_M];
};
constexpr int SHARED_BYTES = BLOCK_M * 420 + 18432;
static_assert(sizeof(Shared) == SHARED_BYTES, "what the launch is told to ask for");

template <Phase PHASE>
__device__ __forceinline__ void end_of()
{
    if constexpr (has_barrier(PHASE)) __syncthreads();
    else __syncwarp();  // lanes exchange data through the warp's strip
}

// 65536 registers are shared: 64 for each of 1024 threads, or 128 for each of 512.
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

    load_halves<BLOCK_M, VEC_WIDTH, THREADS>(shared.q, q + head_start + size_t(block_query) * HEAD_DIM,
                                             seq_len - block_query, threadIdx.x);
    end_of<LOAD_Q>();

    // The keys that this lane's row of the softmax may see, and those that any row of the block may see.
    const int row_keys = CAUSAL ? min(seq_len, first_query + Softmax::row() + 1) : seq_len;
    const int block_keys = CAUSAL ? min(seq_len, block_query + BLOCK_M) : seq_len;

    Softmax softmax;
    Output output;
    for (int first_key = 0; first_key < block_keys; first_key += BLOCK_N) {
        const size_t tile_start = head_start + size_t(first_key) * HEAD_DIM;
        load_halves<BLOCK_N, VEC_WIDTH, THREADS>(shared.k, k + tile_start, seq_len - first_key, threadIdx.x);
        load_halves<BLOCK_N, VEC_WIDTH, THREADS>(shared.v, v + tile_start, seq_len - first_key, threadIdx.x);
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

#else  // USE_MMA_SYNC

// A warp takes at least the 16 rows of an mma. If there are more warps than that allows, they share the
// keys: group g of KEY_GROUPS takes every KEY_GROUPS-th tile, and the groups are joined at the end.
constexpr int WARP_ROWS = BLOCK_M / NUM_WARPS > MMA_M ? BLOCK_M / NUM_WARPS : MMA_M;
constexpr int ROW_WARPS = BLOCK_M / WARP_ROWS;
constexpr int KEY_GROUPS = NUM_WARPS / ROW_WARPS;
constexpr int STEP_KEYS = KEY_GROUPS * BLOCK_N;    // keys that the block loads at a time

using Attention = WarpAttention<WARP_ROWS, SWIZZLE_XOR, CAUSAL>;
using Tile = HalfTile<SWIZZLE_XOR, HEAD_DIM>;
constexpr int Q_BYTES = BLOCK_M * Tile::ROW_BYTES;
constexpr int TILE_BYTES = BLOCK_N * Tile::ROW_BYTES;
constexpr int STAGE_BYTES = 2 * KEY_GROUPS * TILE_BYTES;   // K of all groups, then V
constexpr int SHARED_BYTES = Q_BYTES + SMEM_STAGE * STAGE_BYTES;
static_assert(SHARED_BYTES <= 227 * 1024, "what a block of an H100 can get");
static_assert((KEY_GROUPS - 1) * ROW_WARPS * Attention::STATE_FLOATS * int(sizeof(float)) <= SMEM_STAGE * STAGE_BYTES,
              "the groups are joined where the tiles were");

template <Phase PHASE>
__device__ __forceinline__ void end_of()
{
    if constexpr (has_barrier(PHASE)) __syncthreads();
}

// Starts the copy of ROWS rows. Rows from valid_rows on become zeros.
template <int ROWS>
__device__ __forceinline__ void start_copy(unsigned tile, const __half* from, int valid_rows)
{
    for_each_chunk<ROWS, VEC_WIDTH, THREADS>(threadIdx.x, [&](int row, int column) {
        const unsigned to = tile + Tile::offset(row, column) + column % 8 * int(sizeof(__half));
        cp_async_bytes<VEC_WIDTH * sizeof(__half)>(to, from + row * HEAD_DIM + column, row < valid_rows);
    });
}

// As many registers as two blocks of an SM leave each thread, or one of more than 8 warps' work.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
sdpa_f16(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
         float* __restrict__ out, int heads, int seq_len)
{
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    const unsigned shared_q = static_cast<unsigned>(__cvta_generic_to_shared(dynamic_shared));
    const unsigned stages = shared_q + Q_BYTES;

    const int batch_head = blockIdx.z * heads + blockIdx.y;
    const size_t q_start = size_t(batch_head) * seq_len * HEAD_DIM;
    const size_t kv_start = size_t(batch_head / GROUP) * seq_len * HEAD_DIM;  // GROUP divides heads
    const int block_query = blockIdx.x * BLOCK_M;
    const int warp = threadIdx.x / WARP_SIZE;
    const int group = warp / ROW_WARPS;
    const int warp_row = warp % ROW_WARPS * WARP_ROWS;       // first row of this warp in the block
    const int first_query = block_query + warp_row;

    // The keys that any query of the block may see, and those that any query of the warp may see.
    const int block_keys = CAUSAL ? min(seq_len, block_query + BLOCK_M) : seq_len;
    const int warp_keys = CAUSAL ? min(seq_len, first_query + WARP_ROWS) : seq_len;
    const int steps = ceil_div(block_keys, STEP_KEYS);

    const auto start_load = [&](int step) {
        if (step < steps) {
            const unsigned stage = stages + step % SMEM_STAGE * STAGE_BYTES;
            const int first_key = step * STEP_KEYS;
            const size_t from = kv_start + size_t(first_key) * HEAD_DIM;
            start_copy<STEP_KEYS>(stage, k + from, seq_len - first_key);
            start_copy<STEP_KEYS>(stage + KEY_GROUPS * TILE_BYTES, v + from, seq_len - first_key);
        }
        cp_async_commit();  // also where there is nothing to load: the waits below count groups
    };

    constexpr int AHEAD = SMEM_STAGE == 1 ? 1 : SMEM_STAGE - 1;  // steps that are under way
    start_copy<BLOCK_M>(shared_q, q + q_start + size_t(block_query) * HEAD_DIM, seq_len - block_query);
    cp_async_commit();
    #pragma unroll
    for (int step = 0; step < AHEAD; ++step) start_load(step);
    cp_async_wait<AHEAD>();
    __syncthreads();  // LOAD_Q: the queries of a warp were loaded by all

    Attention attention;
    attention.begin(shared_q + warp_row * Tile::ROW_BYTES);
    constexpr float SCALE_LOG2 = SOFTMAX_SCALE * LOG2_E;

    #pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        cp_async_wait<AHEAD - 1>();
        // With several stages, this also ends ACCUMULATE of the step before: the next copy goes
        // where that step read.
        end_of<LOAD>();
        if (SMEM_STAGE > 1) start_load(step + AHEAD);

        const unsigned keys = stages + step % SMEM_STAGE * STAGE_BYTES + group * TILE_BYTES;
        const int first_key = step * STEP_KEYS + group * BLOCK_N;
        if (first_key < warp_keys) {  // the same for a whole warp
            attention.step(keys, keys + KEY_GROUPS * TILE_BYTES, Mask{seq_len - first_key, first_query - first_key},
                           SCALE_LOG2);
        }
        if (SMEM_STAGE == 1) {
            end_of<ACCUMULATE>();
            start_load(step + 1);
        }
    }

    if (KEY_GROUPS > 1) {
        cp_async_wait<0>();
        __syncthreads();  // the tiles are no longer read
        float* const states = reinterpret_cast<float*>(dynamic_shared + Q_BYTES);
        if (group > 0) attention.leave(states + (warp - ROW_WARPS) * Attention::STATE_FLOATS);
        __syncthreads();  // what the other groups left is complete
        if (group > 0) return;
        for (int other = warp; other < NUM_WARPS - ROW_WARPS; other += ROW_WARPS)
            attention.join(states + other * Attention::STATE_FLOATS, SCALE_LOG2);
    }
    attention.store(out + q_start + size_t(first_query) * HEAD_DIM, seq_len - first_query, 1.0f);
}
#endif
