// Fused attention over e4m3 inputs on Hopper (sm_90a), f16 output: the work of sdpa_fp8.cu.
//
//   out[b,h,i,:] = sum_j softmax_j(q[b,h,i,:] . k[b,h,j,:] / sqrt(D)) v[b,h,j,:]       D = 64
//
// q, k, v   e4m3 codes [B, H, S, D] contiguous, 16-byte aligned; q and k as tensor maps [B H, S, D]
// *_scale   f32 [B, H], amax / 448
// out       f16 [B, H, S, D] contiguous
//
// Q K^T is done on the codes as they are, by fp8 wgmma at twice the rate of f16. P V is done in f16: the
// weights of a softmax do not survive three bits of mantissa (NOTES.md, "The error budget of an fp8 P"), and
// an fp8 wgmma would want the values transposed besides. So a producer warpgroup decodes the values, which
// is exact, into the tile that wgmma reads; it loads them one tile ahead. The scales never touch an element:
// s_q s_k goes into the softmax scale, s_v into the final 1 / l.
//
// Tiles of keys come in by TMA. All else is in wgmma_attention.cuh.
#include "codec.cuh"
#include "wgmma_attention.cuh"

#ifndef PRODUCER_REGISTERS
#define PRODUCER_REGISTERS 80
#endif
static_assert(REGISTERS > 0, "the producer is a whole warpgroup: say how many registers the others take");

constexpr int THREADS = (CONSUMERS + 1) * WARPGROUP;
using Shared = Tiles<uint8_t>;
using Keys = ScoreProduct<uint8_t>;

// This thread's part of a tile of values: the codes of 16 columns of every 32nd row.
struct ValueCodes {
    static constexpr int ROWS = WARPGROUP * CHUNK_BYTES / HEAD_DIM;  // that the warpgroup loads at a time
    uint4 codes[TILE_KEYS / ROWS];

    static __device__ __forceinline__ int row(int i) { return i * ROWS + threadIdx.x % WARPGROUP / (HEAD_DIM / CHUNK_BYTES); }
    static __device__ __forceinline__ int column() { return threadIdx.x % (HEAD_DIM / CHUNK_BYTES) * CHUNK_BYTES; }

    // Loads from row 0 of the tile. Rows past the end become zeros.
    __device__ __forceinline__ void load(const uint8_t* values, int valid_rows)
    {
        #pragma unroll
        for (int i = 0; i < TILE_KEYS / ROWS; ++i)
            codes[i] = row(i) < valid_rows ? __ldg(reinterpret_cast<const uint4*>(values + row(i) * HEAD_DIM + column()))
                                           : make_uint4(0, 0, 0, 0);
    }

    // Stores the values as halves, each chunk of 16 bytes at its swizzled place.
    __device__ __forceinline__ void decode(unsigned char* tile) const
    {
        using Place = HalfTile<true, HEAD_DIM>;
        #pragma unroll
        for (int i = 0; i < TILE_KEYS / ROWS; ++i) {
            __align__(16) __half halves[CHUNK_BYTES];
            decode_chunk<CODEC_E4M3>(halves, codes[i]);
            const uint4* chunks = reinterpret_cast<const uint4*>(halves);
            *reinterpret_cast<uint4*>(tile + Place::offset(row(i), column())) = chunks[0];
            *reinterpret_cast<uint4*>(tile + Place::offset(row(i), column() + 8)) = chunks[1];
        }
    }
};

// The work of a warpgroup: one thread starts the copies of queries and keys, and all decode values.
__device__ __forceinline__ void produce(Shared& shared, const CUtensorMap& q, const CUtensorMap& k, const uint8_t* values,
                                        int head, int block_query, int tiles, int seq_len)
{
    const bool copies = threadIdx.x % WARPGROUP == 0;
    if (copies) {
        arrive_expecting(shared.q_full, sizeof(Shared::q));
        #pragma unroll
        for (int row = 0; row < BLOCK_M; row += GROUP_ROWS)
            copy_box(shared_address(shared.q) + row * Keys::ROW_BYTES, q, block_query + row, head, shared.q_full);
    }
    ValueCodes codes;
    codes.load(values, seq_len);
    #pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
        const int stage = tile % STAGES;
        if (copies) {
            shared.k_ring.acquire(tile);
            copy_box(shared_address(shared.k[stage]), k, tile * TILE_KEYS, head,
                     shared.k_ring.announce(tile, Keys::TILE_BYTES));
        }
        __syncwarp();
        shared.v_ring.acquire(tile);
        codes.decode(shared.v[stage]);
        publish_to_wgmma();
        __syncwarp();
        if (threadIdx.x % WARP_SIZE == 0) shared.v_ring.filled(tile);
        const int next_key = (tile + 1) * TILE_KEYS;
        codes.load(values + size_t(next_key) * HEAD_DIM, seq_len - next_key);
    }
}

// gates.hopper.yaml asks for this many bytes: the tiles, and room to align them.
constexpr int SHARED_BYTES = BLOCK_M * Keys::ROW_BYTES + STAGES * (Keys::TILE_BYTES + VALUE_TILE_BYTES) + 2048;
static_assert(sizeof(Shared) + 1024 <= SHARED_BYTES, "");

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
sdpa_fp8_wgmma(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k, const uint8_t* __restrict__ v,
               const float* __restrict__ q_scale, const float* __restrict__ k_scale, const float* __restrict__ v_scale,
               __half* __restrict__ out, int heads, int seq_len)
{
    extern __shared__ unsigned char dynamic_shared[];
    Shared& shared = aligned_tiles<uint8_t>(dynamic_shared);
    if (threadIdx.x == 0) shared.init(WARPS_PER_GROUP);
    __syncthreads();

    const int head = blockIdx.z * heads + blockIdx.y;
    const int block_query = blockIdx.x * BLOCK_M;
    const int tiles = ceil_div(seq_len, TILE_KEYS);
    const int group = warpgroup();
    const size_t head_start = size_t(head) * seq_len * HEAD_DIM;
    const float scale_log2 = q_scale[head] * k_scale[head] * SOFTMAX_SCALE * LOG2_E;

    if (group == CONSUMERS) {
        give_up_registers<PRODUCER_REGISTERS>();
        produce(shared, q, k, v + head_start, head, block_query, tiles, seq_len);
    } else {
        take_registers<REGISTERS>();
        Softmax softmax;
        Output output;
        softmax.begin();
        output.begin();
        wait(shared.q_full, 0);
        consume(shared, softmax, output, group % ROW_GROUPS, group / ROW_GROUPS, tiles, seq_len, scale_log2);
        finish(shared, softmax, output, group, out + head_start + size_t(block_query) * HEAD_DIM, seq_len - block_query,
               scale_log2, v_scale[head]);
    }
}
