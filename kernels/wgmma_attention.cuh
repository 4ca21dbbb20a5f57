// The work of the warpgroups that compute in a Hopper attention kernel, for any inputs: products by wgmma,
// scores, weights and output in registers (register_softmax.cuh), tiles of keys and values in two rings.
//
// A block has CONSUMERS warpgroups that compute, and threads that fill the rings. A warpgroup takes 64
// queries. Either each has its own (BLOCK_M = 64 CONSUMERS) and all use every tile of TILE_KEYS keys, or
// KEY_GROUPS of them share their queries and take every KEY_GROUPS-th tile, to be joined at the end.
//
// Tensor cores and exponentials overlap. They do inside a warpgroup, because the softmax of a tile waits
// for its scores alone, while the output of the tile before is still under way (FlashAttention-3, algorithm
// 2). They do between warpgroups of an SM, because their turns at the tensor cores and at the softmax fall
// apart by themselves. PING_PONG makes two of them take turns on purpose (section 3.1 there).
#pragma once
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
#ifndef TURN_PASSES
#define TURN_PASSES 2    // a warpgroup passes the turn on after so many eighths of its exponentials
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
static_assert(!PING_PONG || (CONSUMERS > 1 && KEY_GROUPS == 1), "turns are between warpgroups with as many tiles each");
constexpr int WARPS_PER_GROUP = WARPGROUP / WARP_SIZE;

using Softmax = RegisterSoftmax<1, TILE_KEYS>;
using Output = RegisterOutput<1, TILE_KEYS>;

// Computes S = Q K^T on f16 or e4m3, with HEAD_DIM elements a row.
template <typename Element>
struct ScoreProduct {
    static constexpr int ROW_BYTES = HEAD_DIM * int(sizeof(Element));
    static constexpr int TILE_BYTES = TILE_KEYS * ROW_BYTES;

    static __device__ __forceinline__ void start(Softmax::Scores& scores, uint64_t queries, uint64_t keys)
    {
        wgmma_fence();
        #pragma unroll
        for (int i = 0; i < ROW_BYTES / 32; ++i) {
            const uint64_t q = queries + i * DESCRIPTOR_NEXT_32_BYTES;
            const uint64_t k = keys + i * DESCRIPTOR_NEXT_32_BYTES;
            if constexpr (sizeof(Element) == 2) wgmma_qk(scores[0], q, k, i > 0);
            else wgmma_qk_e4m3(scores[0], q, k, i > 0);
        }
        wgmma_commit();
    }
};

constexpr int VALUE_ROW_BYTES = HEAD_DIM * int(sizeof(__half));
constexpr int VALUE_TILE_BYTES = TILE_KEYS * VALUE_ROW_BYTES;

// Keys as Element, values as halves.
template <typename Element>
struct Tiles {
    alignas(1024) unsigned char q[BLOCK_M * ScoreProduct<Element>::ROW_BYTES];
    alignas(1024) unsigned char k[STAGES][ScoreProduct<Element>::TILE_BYTES];
    alignas(1024) unsigned char v[STAGES][VALUE_TILE_BYTES];
    Ring<STAGES> k_ring;
    Ring<STAGES> v_ring;
    uint64_t q_full;

    // One thread calls it, before a barrier of the block. TMA brings keys, and value_fillers threads bring values.
    __device__ __forceinline__ void init(int value_fillers)
    {
        k_ring.init(1, ROW_GROUPS * WARPS_PER_GROUP);
        v_ring.init(value_fillers, ROW_GROUPS * WARPS_PER_GROUP);
        init_mbarrier(q_full, 1);
        publish_mbarriers();
    }
};

// The block's tiles: dynamic shared memory from the first address on that the swizzle allows.
template <typename Element>
__device__ __forceinline__ Tiles<Element>& aligned_tiles(unsigned char* dynamic_shared)
{
    return *reinterpret_cast<Tiles<Element>*>(dynamic_shared + (1024 - shared_address(dynamic_shared) % 1024) % 1024);
}

constexpr uint64_t DESCRIPTOR_NEXT_16_VALUES = MMA_K * VALUE_ROW_BYTES >> 4;

using Weights = uint32_t[TILE_KEYS / MMA_K][4];

// Starts adding P V to O.
__device__ __forceinline__ void start_output(Output& output, const Weights& weights, uint64_t values)
{
    wgmma_fence();
    #pragma unroll
    for (int key = 0; key < TILE_KEYS / MMA_K; ++key)
        wgmma_pv(output.values[0], weights[key], values + key * DESCRIPTOR_NEXT_16_VALUES);
    wgmma_commit();
}

__device__ __forceinline__ void pack(Weights& weights, const Softmax::Scores& scores)
{
    #pragma unroll
    for (int key = 0; key < TILE_KEYS / MMA_K; ++key)
        pack_weights(weights[key], scores[0][2 * key], scores[0][2 * key + 1]);
}

// Turns at the exponentials, in the order of the warpgroups. One warp can keep busy the unit of its scheduler
// that makes them; left to themselves all warps want it at the same time and then all wait for the tensor
// cores. Warp i of every warpgroup is on scheduler i, so there the turn goes from warpgroup to warpgroup. A
// named barrier for each warp's turn; the very first turn is not waited for.
__device__ __forceinline__ void await_turn(int group)
{
    const int barrier = group * WARPS_PER_GROUP + threadIdx.x % WARPGROUP / WARP_SIZE;
    if constexpr (PING_PONG) asm volatile("bar.sync %0, %1;" :: "r"(barrier), "n"(2 * WARP_SIZE) : "memory");
}
// `sum`, a sum of weights, is never negative. ptxas does not know that, and so cannot pass the turn before it
// is there; without it, it does so before most of the exponentials.
__device__ __forceinline__ void pass_turn(int group, float sum)
{
    const int next = group + 1 < CONSUMERS ? group + 1 : 0;
    const int barrier = next * WARPS_PER_GROUP + threadIdx.x % WARPGROUP / WARP_SIZE + (sum < 0.0f ? 1 : 0);
    if constexpr (PING_PONG) asm volatile("bar.arrive %0, %1;" :: "r"(barrier), "n"(2 * WARP_SIZE) : "memory");
}

// A warpgroup: tiles first, first + KEY_GROUPS, ... of `tiles`.
template <typename Element>
__device__ __forceinline__ void consume(Tiles<Element>& shared, Softmax& softmax, Output& output, int row_group, int first,
                                        int tiles, int seq_len, float scale_log2)
{
    using Product = ScoreProduct<Element>;
    constexpr int ROW_BYTES = Product::ROW_BYTES;
    const uint64_t queries = describe_tile<ROW_BYTES>(shared_address(shared.q) + row_group * GROUP_ROWS * ROW_BYTES);
    const bool speaks = threadIdx.x % WARP_SIZE == 0;  // for its warp
    const uint64_t first_keys = describe_tile<ROW_BYTES>(shared_address(shared.k));
    const uint64_t first_values = describe_tile<VALUE_ROW_BYTES>(shared_address(shared.v));
    const auto keys = [&](int tile) { return first_keys + tile % STAGES * (Product::TILE_BYTES >> 4); };
    const auto values = [&](int tile) { return first_values + tile % STAGES * (VALUE_TILE_BYTES >> 4); };
    const auto mask = [&](int tile) { return Mask{seq_len - tile * TILE_KEYS, 0}; };
    if (first >= tiles) return;

    Softmax::Scores scores;
    Weights weights;
    PerRow<1> factor;
    shared.k_ring.await(first);
    Product::start(scores, queries, keys(first));
    wgmma_wait<0>();
    keep_order(scores[0]);
    if (speaks) shared.k_ring.release(first);
    Softmax::apply<false>(mask(first), scores);
    softmax.follow(scores, factor, scale_log2);  // the output is still 0
    if (row_group > 0) await_turn(row_group);
    pass_turn(row_group, softmax.weigh<TURN_PASSES>(scores, scale_log2));
    pack(weights, scores);

    int tile = first;
    #pragma unroll 1
    for (int next = first + KEY_GROUPS; next < tiles; tile = next, next += KEY_GROUPS) {
        shared.k_ring.await(next);
        Product::start(scores, queries, keys(next));
        shared.v_ring.await(tile);
        start_output(output, weights, values(tile));

        wgmma_wait<1>();  // the scores, not the output
        keep_order(scores[0]);
        if (speaks) shared.k_ring.release(next);
        Softmax::apply<false>(mask(next), scores);
        const bool raised = softmax.follow(scores, factor, scale_log2);
        await_turn(row_group);
        pass_turn(row_group, softmax.weigh<TURN_PASSES>(scores, scale_log2));

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

// Waits for all threads that compute.
__device__ __forceinline__ void synchronize_consumers()
{
    asm volatile("bar.sync 15, %0;" :: "n"(CONSUMERS * WARPGROUP) : "memory");
}

// The end of a block, for the threads that compute: groups of keys are joined, and numerator * O / l goes to
// `out`, the block's first row.
template <typename Element, typename Out>
__device__ __forceinline__ void finish(Tiles<Element>& shared, Softmax& softmax, Output& output, int group,
                                       Out* out, int valid_rows, float scale_log2, float numerator)
{
    const int row_group = group % ROW_GROUPS;
    const int key_group = group / ROW_GROUPS;
    const int warp = threadIdx.x % WARPGROUP / WARP_SIZE;
    if (KEY_GROUPS > 1) {
        static_assert((KEY_GROUPS - 1) * ROW_GROUPS * WARPS_PER_GROUP * Output::STATE_FLOATS * int(sizeof(float))
                          <= STAGES * VALUE_TILE_BYTES, "groups are joined where the values were");
        float* const states = reinterpret_cast<float*>(shared.v);
        const auto state = [&](int other) {
            return states + (((other - 1) * ROW_GROUPS + row_group) * WARPS_PER_GROUP + warp) * Output::STATE_FLOATS;
        };
        synchronize_consumers();  // all tiles have been used
        if (key_group > 0) output.leave(softmax, state(key_group));
        synchronize_consumers();  // what the other groups left is complete
        if (key_group > 0) return;
        for (int other = 1; other < KEY_GROUPS; ++other) output.join(softmax, state(other), scale_log2);
    }
    const int row = row_group * GROUP_ROWS + warp * MMA_M;
    output.store(softmax, out + size_t(row) * HEAD_DIM, valid_rows - row, numerator);
}
