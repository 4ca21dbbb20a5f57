// Fused attention over f16 inputs on Hopper (sm_90a): the work of kernels/sdpa_f16.cu with USE_MMA_SYNC, its
// products by wgmma and its tiles by TMA.
//
//   out[b,h,i,:] = sum_j softmax_j(q[b,h,i,:] . k[b,h,j,:] / sqrt(D)) v[b,h,j,:]       D = 64
//
// q, k, v   f16 [B, H, S, D] contiguous, 16-byte aligned; to the kernel as tensor maps [B H, S, D]
// out       f32 [B, H, S, D] contiguous
//
// A block is CONSUMERS warpgroups that compute and one more warp, the producer, that starts the copies.
// Tiles of TILE_KEYS keys, and of as many values, go through a ring of STAGES buffers each. A warpgroup
// takes 64 queries. Either each has its own (BLOCK_M = 64 CONSUMERS) and all use every tile, or
// KEY_GROUPS of them share their queries and take every KEY_GROUPS-th tile, to be joined at the end.
//
// What overlaps: tensor cores with exponentials. Inside a warpgroup, because the softmax of a tile waits
// for its scores alone, while the output of the tile before is still under way (FlashAttention-3, algorithm
// 2). Between warpgroups of an SM, because their turns at the tensor cores and at the softmax fall apart by
// themselves. PING_PONG makes two of them take turns on purpose (section 3.1 there).
#include <tuple>
#include "hopper.cuh"
#include "register_softmax.cuh"

#ifndef BLOCK_M
#define BLOCK_M 128
#endif
#ifndef CONSUMERS
#define CONSUMERS 2      // warpgroups
#endif
#ifndef TILE_KEYS
#define TILE_KEYS 128    // 64 or 128
#endif
#ifndef STAGES
#define STAGES 2
#endif
#ifndef PING_PONG
#define PING_PONG 0
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1     // on one SM: bounds the registers
#endif
#ifndef REGISTERS
#define REGISTERS 0      // of a computing thread, where the producer's are to be shared out
#endif
static_assert(BLOCK_M % 64 == 0 && CONSUMERS % (BLOCK_M / 64) == 0, "64 queries for each warpgroup");
static_assert(TILE_KEYS == 64 || TILE_KEYS == 128, "TILE_KEYS is 64 or 128");

constexpr int GROUP_ROWS = 64;                         // queries of a warpgroup
constexpr int ROW_GROUPS = BLOCK_M / GROUP_ROWS;
constexpr int KEY_GROUPS = CONSUMERS / ROW_GROUPS;
static_assert(!PING_PONG || (ROW_GROUPS == 2 && KEY_GROUPS == 1), "two warpgroups take turns");
constexpr int THREADS = CONSUMERS * WARPGROUP + (REGISTERS ? WARPGROUP : WARP_SIZE);
constexpr int WARPS_PER_GROUP = WARPGROUP / WARP_SIZE;

constexpr int ROW_BYTES = HEAD_DIM * int(sizeof(__half));
constexpr int TILE_BYTES = TILE_KEYS * ROW_BYTES;
static_assert(ROW_BYTES == SWIZZLE_BYTES, "a row is as wide as the swizzle");

using Softmax = RegisterSoftmax<1, TILE_KEYS>;
using Output = RegisterOutput<1, TILE_KEYS>;

struct Shared {
    alignas(1024) unsigned char q[BLOCK_M * ROW_BYTES];
    alignas(1024) unsigned char k[STAGES][TILE_BYTES];
    alignas(1024) unsigned char v[STAGES][TILE_BYTES];
    Ring<STAGES> k_ring;
    Ring<STAGES> v_ring;
    uint64_t q_full;
};
static_assert((KEY_GROUPS - 1) * ROW_GROUPS * WARPS_PER_GROUP * Output::STATE_FLOATS * int(sizeof(float))
                  <= int(sizeof(Shared::k) + sizeof(Shared::v)), "groups are joined where the tiles were");

struct Maps {
    const CUtensorMap& q;
    const CUtensorMap& k;
    const CUtensorMap& v;
};

// One thread: all copies of the block.
__device__ __forceinline__ void produce(Shared& shared, const Maps& maps, int head, int block_query, int tiles)
{
    arrive_expecting(shared.q_full, sizeof(Shared::q));
    #pragma unroll
    for (int group = 0; group < ROW_GROUPS; ++group)
        copy_box(shared_address(shared.q) + group * GROUP_ROWS * ROW_BYTES, maps.q, block_query + group * GROUP_ROWS,
                 head, shared.q_full);
    #pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
        const int stage = tile % STAGES;
        uint64_t& k_full = shared.k_ring.acquire(tile, TILE_BYTES);
        copy_box(shared_address(shared.k[stage]), maps.k, tile * TILE_KEYS, head, k_full);
        uint64_t& v_full = shared.v_ring.acquire(tile, TILE_BYTES);
        copy_box(shared_address(shared.v[stage]), maps.v, tile * TILE_KEYS, head, v_full);
    }
}

// Starts S = Q K^T, for tiles that these describe.
__device__ __forceinline__ void start_scores(Softmax::Scores& scores, uint64_t queries, uint64_t keys)
{
    wgmma_fence();
    #pragma unroll
    for (int d = 0; d < HEAD_DIM / MMA_K; ++d)
        wgmma_qk(scores[0], queries + d * DESCRIPTOR_NEXT_K16, keys + d * DESCRIPTOR_NEXT_K16, d > 0);
    wgmma_commit();
}

using Weights = uint32_t[TILE_KEYS / MMA_K][4];

// Starts O += P V.
__device__ __forceinline__ void start_output(Output& output, const Weights& weights, uint64_t values)
{
    wgmma_fence();
    #pragma unroll
    for (int key = 0; key < TILE_KEYS / MMA_K; ++key)
        wgmma_pv(output.values[0], weights[key], values + key * DESCRIPTOR_NEXT_ROWS16);
    wgmma_commit();
}

__device__ __forceinline__ void pack(Weights& weights, const Softmax::Scores& scores)
{
    #pragma unroll
    for (int key = 0; key < TILE_KEYS / MMA_K; ++key)
        pack_weights(weights[key], scores[0][2 * key], scores[0][2 * key + 1]);
}

// Turns between the two warpgroups: named barriers 1 and 2.
__device__ __forceinline__ void await_turn(int group)
{
    if (PING_PONG) asm volatile("bar.sync %0, 256;" :: "r"(1 + group) : "memory");
}
__device__ __forceinline__ void pass_turn(int group)
{
    if (PING_PONG) asm volatile("bar.arrive %0, 256;" :: "r"(2 - group) : "memory");
}

// A warpgroup: tiles first, first + KEY_GROUPS, ... of `tiles`.
__device__ __forceinline__ void consume(Shared& shared, Softmax& softmax, Output& output, int row_group, int first,
                                        int tiles, int seq_len, float scale_log2)
{
    const uint64_t queries = describe_tile(shared_address(shared.q) + row_group * GROUP_ROWS * ROW_BYTES);
    const bool speaks = threadIdx.x % WARP_SIZE == 0;  // for its warp
    const uint64_t first_keys = describe_tile(shared_address(shared.k));
    const uint64_t first_values = describe_tile(shared_address(shared.v));
    const auto keys = [&](int tile) { return first_keys + tile % STAGES * (TILE_BYTES >> 4); };
    const auto values = [&](int tile) { return first_values + tile % STAGES * (TILE_BYTES >> 4); };
    const auto mask = [&](int tile) { return Mask{seq_len - tile * TILE_KEYS, 0}; };
    if (first >= tiles) return;

    Softmax::Scores scores;
    Weights weights;
    PerRow<1> factor;
    shared.k_ring.await(first);
    start_scores(scores, queries, keys(first));
    wgmma_wait<0>();
    keep_order(scores[0]);
    if (speaks) shared.k_ring.release(first);
    Softmax::apply<false>(mask(first), scores);
    softmax.weigh(scores, factor, scale_log2);  // the output is still 0
    pack(weights, scores);

    if (PING_PONG && row_group == 1) pass_turn(row_group);
    int tile = first;
    #pragma unroll 1
    for (int next = first + KEY_GROUPS; next < tiles; tile = next, next += KEY_GROUPS) {
        shared.k_ring.await(next);
        await_turn(row_group);
        start_scores(scores, queries, keys(next));
        shared.v_ring.await(tile);
        start_output(output, weights, values(tile));
        pass_turn(row_group);

        wgmma_wait<1>();  // the scores, not the output
        keep_order(scores[0]);
        if (speaks) shared.k_ring.release(next);
        Softmax::apply<false>(mask(next), scores);
        const bool raised = softmax.weigh(scores, factor, scale_log2);
        wgmma_wait<0>();
        keep_order(output.values[0]);
        if (speaks) shared.v_ring.release(tile);
        if (raised) output.rescale(factor);
        pack(weights, scores);
    }

    shared.v_ring.await(tile);
    start_output(output, weights, values(tile));
    wgmma_wait<0>();
    keep_order(output.values[0]);
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
sdpa_f16_wgmma(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
               const __grid_constant__ CUtensorMap v, float* __restrict__ out, int heads, int seq_len)
{
    extern __shared__ unsigned char dynamic_shared[];
    Shared& shared = *reinterpret_cast<Shared*>(
        dynamic_shared + (1024 - shared_address(dynamic_shared) % 1024) % 1024);  // as the swizzle wants it

    if (threadIdx.x == 0) {
        shared.k_ring.init(ROW_GROUPS * WARPS_PER_GROUP);
        shared.v_ring.init(ROW_GROUPS * WARPS_PER_GROUP);
        init_mbarrier(shared.q_full, 1);
        publish_mbarriers();
    }
    __syncthreads();

    const int head = blockIdx.z * heads + blockIdx.y;
    const int block_query = blockIdx.x * BLOCK_M;
    const int tiles = ceil_div(seq_len, TILE_KEYS);
    const int group = warpgroup();
    constexpr float SCALE_LOG2 = SOFTMAX_SCALE * LOG2_E;

    Softmax softmax;
    Output output;
    const int row_group = group % ROW_GROUPS;
    const int key_group = group / ROW_GROUPS;
    if (group == CONSUMERS) {
        if constexpr (REGISTERS > 0) give_up_registers<24>();
        if (threadIdx.x % WARPGROUP == 0) produce(shared, Maps{q, k, v}, head, block_query, tiles);
        if (KEY_GROUPS == 1) return;
    } else {
        if constexpr (REGISTERS > 0) take_registers<REGISTERS>();
        softmax.begin();
        output.begin();
        wait(shared.q_full, 0);
        consume(shared, softmax, output, row_group, key_group, tiles, seq_len, SCALE_LOG2);
    }

    const int warp = threadIdx.x % WARPGROUP / WARP_SIZE;
    if (KEY_GROUPS > 1) {
        float* const states = reinterpret_cast<float*>(shared.k);
        const auto state = [&](int other) {
            return states + ((other - 1) * ROW_GROUPS * WARPS_PER_GROUP + row_group * WARPS_PER_GROUP + warp) * Output::STATE_FLOATS;
        };
        __syncthreads();  // all tiles have been used
        if (group < CONSUMERS && key_group > 0) output.leave(softmax, state(key_group));
        __syncthreads();  // what the other groups left is complete
        if (group == CONSUMERS || key_group > 0) return;
        for (int other = 1; other < KEY_GROUPS; ++other) output.join(softmax, state(other), SCALE_LOG2);
    }
    const int first_query = block_query + row_group * GROUP_ROWS + warp * MMA_M;
    output.store(softmax, out + (size_t(head) * seq_len + first_query) * HEAD_DIM, seq_len - first_query, 1.0f);
}

// ---- host ----------------------------------------------------------------------------------------

#include "tensor_map.cuh"

// gates.yaml asks for this many bytes: the tiles, and room to align them.
constexpr int SHARED_BYTES = BLOCK_M * ROW_BYTES + 2 * STAGES * TILE_BYTES + 2048;
static_assert(sizeof(Shared) + 1024 <= SHARED_BYTES, "");

extern "C" int launch_sdpa_f16_wgmma(const __half* q, const __half* k, const __half* v, float* out, int batch,
                                     int heads, int seq_len, cudaStream_t stream)
{
    CUtensorMap q_map, k_map, v_map;
    const int all_heads = batch * heads;
    for (const auto& [map, tensor, rows] : {std::tuple{&q_map, q, GROUP_ROWS}, {&k_map, k, TILE_KEYS}, {&v_map, v, TILE_KEYS}}) {
        const int failed = describe_heads(*map, tensor, all_heads, seq_len, rows);
        if (failed) return failed;
    }
    const cudaError_t allowed =
        cudaFuncSetAttribute(sdpa_f16_wgmma, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
    if (allowed != cudaSuccess) return allowed;
    const dim3 grid(ceil_div(seq_len, BLOCK_M), heads, batch);
    sdpa_f16_wgmma<<<grid, THREADS, SHARED_BYTES, stream>>>(q_map, k_map, v_map, out, heads, seq_len);
    return cudaGetLastError();
}
