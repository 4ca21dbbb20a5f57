// The stages of sdpa_fp8.cu from stage3 on: scores, weights and output stay in registers (warp_attention.cuh).
// They differ only in how the tiles of K and V get from codes in global memory to halves in shared
// memory:
//
//   USE_CP_ASYNC_STAGES  d tiles on the way: one decoded and in use, d - 1 as codes under cp.async
//   USE_WARP_SPECIALIZATION  NUM_PRODUCER_WARPS copy and decode, into two tiles by turns; the others compute
//   USE_PERSISTENT_CTA   a block takes query tiles from a queue until there are no more
//
// A warp that computes owns 16 queries from start to end. CODES and HALVES below are the two kinds of tiles.
#pragma once
#include "codec.cuh"
#include "tiles.cuh"
#include "warp_attention.cuh"

#if USE_WARP_SPECIALIZATION
constexpr int PRODUCER_WARPS = NUM_PRODUCER_WARPS;
constexpr int HALF_TILES = 2;                           // decoded tiles of K and of V
#else
constexpr int PRODUCER_WARPS = 0;
constexpr int HALF_TILES = 1;
#endif
constexpr int CODE_TILES = USE_CP_ASYNC_STAGES - 1;     // tiles of codes that are on their way
constexpr int COMPUTE_THREADS = NUM_WARPS * WARP_SIZE;
constexpr int FUSED_THREADS = COMPUTE_THREADS + PRODUCER_WARPS * WARP_SIZE;
constexpr int LOADING_THREADS = PRODUCER_WARPS > 0 ? PRODUCER_WARPS * WARP_SIZE : COMPUTE_THREADS;
static_assert(BLOCK_M == NUM_WARPS * MMA_M, "each warp that computes has the 16 queries of one mma");

// 32 keys are taken at a time. With all 64 of a tile, 128 registers do not hold what a warp needs.
using FusedAttention = WarpAttention<MMA_M, USE_SMEM_SWIZZLE_XOR, CAUSAL, 32>;
using Place = HalfTile<USE_SMEM_SWIZZLE_XOR, HEAD_DIM>;
constexpr int HALF_TILE_BYTES = BLOCK_N * Place::ROW_BYTES;
constexpr int CODE_TILE_BYTES = BLOCK_N * HEAD_DIM;
static_assert(BLOCK_M <= BLOCK_N, "the queries are staged where the first keys will be");

struct alignas(128) FusedShared {
    struct { unsigned char k[HALF_TILE_BYTES], v[HALF_TILE_BYTES]; } halves[HALF_TILES];
    struct { uint8_t k[CODE_TILE_BYTES], v[CODE_TILE_BYTES]; } codes[CODE_TILES];
    int next_tile;  // of queries, from the queue
};

// Copies and decodes for a thread of LOADING_THREADS. The thread decodes only the chunks that it
// copied, so its own wait for its copies is enough.
struct TileLoader {
    const uint8_t* k;  // row 0 of this head
    const uint8_t* v;
    int seq_len;
    FusedShared& shared;
    int thread;

    // Starts the copies of a tile. They are a group of their own, even if there is no such tile.
    __device__ __forceinline__ void start(int tile)
    {
        const int first_key = tile * BLOCK_N;
        if (first_key < seq_len) {
            auto& codes = shared.codes[tile % CODE_TILES];
            const size_t from = size_t(first_key) * HEAD_DIM;
            start_copy_of_codes<BLOCK_N, LOADING_THREADS>(codes.k, k + from, seq_len - first_key, thread);
            start_copy_of_codes<BLOCK_N, LOADING_THREADS>(codes.v, v + from, seq_len - first_key, thread);
        }
        cp_async_commit();
    }

    __device__ __forceinline__ void start_first()
    {
        #pragma unroll
        for (int tile = 0; tile < CODE_TILES; ++tile) start(tile);
    }

    // Waits for the copies of a tile, decodes it, and starts the copies of the tile that takes its place.
    __device__ __forceinline__ void decode(int tile)
    {
        cp_async_wait<CODE_TILES - 1>();
        const auto& codes = shared.codes[tile % CODE_TILES];
        auto& halves = shared.halves[tile % HALF_TILES];
        decode_tile(halves.k, codes.k);
        decode_tile(halves.v, codes.v);
        start(tile + CODE_TILES);
    }

private:
    __device__ __forceinline__ void decode_tile(unsigned char* halves, const uint8_t* codes) const
    {
        constexpr int ROWS = LOADING_THREADS * CHUNK_BYTES / HEAD_DIM;  // a chunk for each thread
        #pragma unroll 2  // a single producer warp has 16 chunks: all at once take too many registers
        for (int first = 0; first < BLOCK_N; first += ROWS)
            for_each_chunk<ROWS, CHUNK_BYTES, LOADING_THREADS>(thread, [&](int row, int column) {
                row += first;
                decode_to(halves, row, column, *reinterpret_cast<const uint4*>(codes + row * HEAD_DIM + column));
            });
    }

public:
    static __device__ __forceinline__ void decode_to(unsigned char* halves, int row, int column, uint4 codes)
    {
        __align__(16) __half decoded[CHUNK_BYTES];
        decode_chunk<CODEC>(decoded, codes);
        const uint4* chunks = reinterpret_cast<const uint4*>(decoded);
        *reinterpret_cast<uint4*>(halves + Place::offset(row, column)) = chunks[0];
        *reinterpret_cast<uint4*>(halves + Place::offset(row, column + 8)) = chunks[1];
    }
};

// Named barriers between the threads that load and those that compute, one pair for each tile of halves: 1 and 2 say
// that a tile is full, 3 and 4 that it is free. A thread that does not need to wait only arrives (PTX ISA, bar).
#if USE_WARP_SPECIALIZATION
__device__ __forceinline__ void await_barrier(int barrier)
{
    asm volatile("bar.sync %0, %1;" :: "r"(barrier), "n"(FUSED_THREADS) : "memory");
}
__device__ __forceinline__ void arrive_at_barrier(int barrier)
{
    asm volatile("bar.arrive %0, %1;" :: "r"(barrier), "n"(FUSED_THREADS) : "memory");
}
__device__ __forceinline__ int full(int tile) { return 1 + tile % HALF_TILES; }
__device__ __forceinline__ int is_free(int tile) { return 3 + tile % HALF_TILES; }
#endif

// The queue of USE_PERSISTENT_CTA: the number of query tiles that have been taken, and the number
// of blocks that are done. The last block leaves both at 0 for the next launch.
#if USE_PERSISTENT_CTA
__device__ unsigned taken_tiles;
__device__ unsigned done_blocks;
#endif

struct Problem {
    const uint8_t* q;
    const uint8_t* k;
    const uint8_t* v;
    const float* q_scale;
    const float* k_scale;
    const float* v_scale;
    __half* out;
    int heads;
    int seq_len;
};

// Computes BLOCK_M queries of one head.
__device__ __forceinline__ void attend(const Problem& problem, FusedShared& shared, int query_tile, int batch_head)
{
    const int seq_len = problem.seq_len;
    const size_t head_start = size_t(batch_head) * seq_len * HEAD_DIM;
    const int scale_index = CODEC == CODEC_E4M3 ? batch_head : batch_head % problem.heads;
    const int tiles = ceil_div(CAUSAL ? min(seq_len, (query_tile + 1) * BLOCK_M) : seq_len, BLOCK_N);
    const int warp = threadIdx.x / WARP_SIZE;
    const int first_query = query_tile * BLOCK_M + warp * MMA_M;  // of this warp
    const bool computes = warp < NUM_WARPS;
    TileLoader loader{problem.k + head_start, problem.v + head_start, seq_len, shared,
                      PRODUCER_WARPS > 0 ? int(threadIdx.x) - COMPUTE_THREADS : int(threadIdx.x)};
    if (PRODUCER_WARPS == 0 || !computes) loader.start_first();

    // Queries go through shared memory into the fragments in which they stay. Each warp loads its own rows.
    FusedAttention attention;
    if (computes) {
        unsigned char* const staged = shared.halves[0].k;
        for_each_chunk<MMA_M, CHUNK_BYTES, WARP_SIZE>(threadIdx.x % WARP_SIZE, [&](int row, int column) {
            const bool valid = first_query + row < seq_len;
            const uint8_t* from = problem.q + head_start + (valid ? size_t(first_query + row) : 0) * HEAD_DIM + column;
            TileLoader::decode_to(staged, warp * MMA_M + row, column,
                                  valid ? __ldg(reinterpret_cast<const uint4*>(from)) : make_uint4(0, 0, 0, 0));
        });
        __syncwarp();
        attention.begin(static_cast<unsigned>(__cvta_generic_to_shared(staged)) + warp * MMA_M * Place::ROW_BYTES);
    }

    constexpr float unit = CODEC_UNIT<CODEC>;
    const float scale_log2 =
        problem.q_scale[scale_index] * unit * (problem.k_scale[scale_index] * unit) * SOFTMAX_SCALE * LOG2_E;
    const auto step = [&](int tile) {
        const auto& halves = shared.halves[tile % HALF_TILES];
        attention.step(static_cast<unsigned>(__cvta_generic_to_shared(halves.k)),
                       static_cast<unsigned>(__cvta_generic_to_shared(halves.v)),
                       Mask{seq_len - tile * BLOCK_N, first_query - tile * BLOCK_N}, scale_log2);
    };

#if USE_WARP_SPECIALIZATION
    __syncthreads();  // the queries have been read from where the first keys go
    if (computes) {
        #pragma unroll 1
        for (int tile = 0; tile < tiles; ++tile) {
            await_barrier(full(tile));
            step(tile);
            if (tile + HALF_TILES < tiles) arrive_at_barrier(is_free(tile));
        }
    } else {
        #pragma unroll 1
        for (int tile = 0; tile < tiles; ++tile) {
            if (tile >= HALF_TILES) await_barrier(is_free(tile));
            loader.decode(tile);
            arrive_at_barrier(full(tile));
        }
    }
#else
    #pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
        __syncthreads();  // all warps are done with the decoded tiles, at first with the staged queries
        loader.decode(tile);
        __syncthreads();  // the new tiles are complete
        step(tile);
    }
#endif
    if (computes)
        attention.store(problem.out + head_start + size_t(first_query) * HEAD_DIM, seq_len - first_query,
                        problem.v_scale[scale_index] * unit);
}

__device__ __forceinline__ void attend_all(const Problem& problem, FusedShared& shared)
{
#if USE_PERSISTENT_CTA
    const unsigned tiles_per_head = ceil_div(problem.seq_len, BLOCK_M);
    const unsigned all_tiles = tiles_per_head * gridDim.y * gridDim.z;
    for (;;) {
        if (threadIdx.x == 0) shared.next_tile = atomicAdd(&taken_tiles, 1u);
        __syncthreads();  // the next tile is known, and all warps are done with the last one
        const unsigned tile = shared.next_tile;
        if (tile >= all_tiles) break;
        attend(problem, shared, tile % tiles_per_head, tile / tiles_per_head);
    }
    const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
    if (threadIdx.x == 0 && atomicAdd(&done_blocks, 1u) == blocks - 1) {
        taken_tiles = 0;
        done_blocks = 0;
    }
#else
    attend(problem, shared, blockIdx.x, blockIdx.z * problem.heads + blockIdx.y);
#endif
}
