// Fused attention over f16 inputs on Hopper (sm_90a): the work of kernels/sdpa_f16.cu with USE_MMA_SYNC, its
// products by wgmma and its tiles by TMA.
//
//   out[b,h,i,:] = sum_j softmax_j(q[b,h,i,:] . k[b,h,j,:] / sqrt(D)) v[b,h,j,:]       D = 64
//
// q, k, v   f16 [B, H, S, D] contiguous, 16-byte aligned; to the kernel as tensor maps [B H, S, D]
// out       f32 [B, H, S, D] contiguous
//
// Tiles come in by TMA, which one more warp, the producer, starts. All else is in wgmma_attention.cuh.
#include "wgmma_attention.cuh"

// Registers move only between whole warpgroups.
constexpr int THREADS = CONSUMERS * WARPGROUP + (REGISTERS ? WARPGROUP : WARP_SIZE);
using Shared = Tiles<__half>;
constexpr int TILE_BYTES = VALUE_TILE_BYTES;  // of keys as of values

struct Maps {
    const CUtensorMap& q;
    const CUtensorMap& k;
    const CUtensorMap& v;
};

// Starts all copies of the block, in one thread.
__device__ __forceinline__ void produce(Shared& shared, const Maps& maps, int head, int block_query, int tiles)
{
    arrive_expecting(shared.q_full, sizeof(Shared::q));
    #pragma unroll
    for (int row = 0; row < BLOCK_M; row += GROUP_ROWS)
        copy_box(shared_address(shared.q) + row * VALUE_ROW_BYTES, maps.q, block_query + row, head, shared.q_full);
    #pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
        const int stage = tile % STAGES;
        shared.k_ring.acquire(tile);
        copy_box(shared_address(shared.k[stage]), maps.k, tile * TILE_KEYS, head, shared.k_ring.announce(tile, TILE_BYTES));
        shared.v_ring.acquire(tile);
        copy_box(shared_address(shared.v[stage]), maps.v, tile * TILE_KEYS, head, shared.v_ring.announce(tile, TILE_BYTES));
    }
}

// gates.hopper.yaml asks for this many bytes: the tiles, and room to align them.
constexpr int SHARED_BYTES = BLOCK_M * VALUE_ROW_BYTES + 2 * STAGES * TILE_BYTES + 2048;
static_assert(sizeof(Shared) + 1024 <= SHARED_BYTES, "");

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
sdpa_f16_wgmma(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
               const __grid_constant__ CUtensorMap v, float* __restrict__ out, int heads, int seq_len)
{
    extern __shared__ unsigned char dynamic_shared[];
    Shared& shared = aligned_tiles<__half>(dynamic_shared);
    if (threadIdx.x == 0) shared.init(1);
    __syncthreads();

    const int head = blockIdx.z * heads + blockIdx.y;
    const int block_query = blockIdx.x * BLOCK_M;
    const int tiles = ceil_div(seq_len, TILE_KEYS);
    const int group = warpgroup();
    constexpr float SCALE_LOG2 = SOFTMAX_SCALE * LOG2_E;

    if (group == CONSUMERS) {
        if constexpr (REGISTERS > 0) give_up_registers<24>();
        if (threadIdx.x % WARPGROUP == 0) produce(shared, Maps{q, k, v}, head, block_query, tiles);
    } else {
        if constexpr (REGISTERS > 0) take_registers<REGISTERS>();
        Softmax softmax;
        Output output;
        softmax.begin();
        output.begin();
        wait(shared.q_full, 0);
        consume(shared, softmax, output, group % ROW_GROUPS, group / ROW_GROUPS, tiles, seq_len, SCALE_LOG2);
        finish(shared, softmax, output, group, out + (size_t(head) * seq_len + block_query) * HEAD_DIM,
               seq_len - block_query, SCALE_LOG2, 1.0f);
    }
}
