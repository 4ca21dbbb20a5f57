// Fused attention by one warp with everything between load and store in registers: scores, weights and
// the running output never touch shared memory (FlashAttention-2, algorithm 1). The warp has ROWS
// queries, 16 or 32 of them, and its step over one tile of keys and values is
//
//   score        S = Q K^T                      mma.sync
//   softmax      P = 2^(S scale - m)            register_softmax.cuh
//   accumulate   O = O + P V                    mma.sync
//
// All that it needs of shared memory is the two tiles, as HalfTile lays them out.
#pragma once
#include "register_softmax.cuh"

// A tile is taken KEYS keys at a time: fewer at a time take fewer registers.
template <int ROWS, bool SWIZZLED, bool IS_CAUSAL, int KEYS = BLOCK_N>
class WarpAttention {
    static_assert(ROWS == 16 || ROWS == 32, "one or two mma tiles of queries");
    static constexpr int M_TILES = ROWS / MMA_M;
    static constexpr int N_TILES = KEYS / MMA_N;       // of scores
    static constexpr int D_TILES = HEAD_DIM / MMA_N;   // of the output
    using Tile = HalfTile<SWIZZLED, HEAD_DIM>;
    using Softmax = RegisterSoftmax<M_TILES, KEYS>;
    using Output = RegisterOutput<M_TILES, KEYS>;
    using Scores = typename Softmax::Scores;

    uint32_t query[M_TILES][HEAD_DIM / MMA_K][4];
    Softmax softmax;
    Output output;

    static __device__ __forceinline__ int lane() { return threadIdx.x % WARP_SIZE; }

public:
    static constexpr int STATE_FLOATS = Output::STATE_FLOATS;

    // Begins with `queries`, which are ROWS rows of shared memory from a multiple of 8 on.
    __device__ __forceinline__ void begin(unsigned queries)
    {
        #pragma unroll
        for (int m = 0; m < M_TILES; ++m)
            #pragma unroll
            for (int d = 0; d < HEAD_DIM / MMA_K; ++d)
                ldmatrix(query[m][d], queries + Tile::offset(m * MMA_M + lane() % 16, d * MMA_K + lane() / 16 * 8));
        softmax.begin();
        output.begin();
    }

    __device__ __forceinline__ void step(unsigned keys, unsigned values, const Mask& mask, float scale_log2)
    {
        #pragma unroll 1
        for (int key = 0; key < BLOCK_N; key += KEYS) {
            Scores scores;
            score(scores, keys + key * Tile::ROW_BYTES);
            Softmax::template apply<IS_CAUSAL>(Mask{mask.valid_keys - key, mask.query - key}, scores);
            PerRow<M_TILES> factor;
            if (softmax.follow(scores, factor, scale_log2)) output.rescale(factor);
            softmax.weigh(scores, scale_log2);
            accumulate(scores, values + key * Tile::ROW_BYTES);
        }
    }

    // For a warp that has seen other keys of the same queries.
    __device__ __forceinline__ void leave(float* state) const { output.leave(softmax, state); }
    __device__ __forceinline__ void join(const float* state, float scale_log2) { output.join(softmax, state, scale_log2); }

    template <typename Out>
    __device__ __forceinline__ void store(Out* out, int valid_rows, float numerator) const
    {
        output.store(softmax, out, valid_rows, numerator);
    }

private:
    // Computes S = Q K^T, in raw units.
    __device__ __forceinline__ void score(Scores& scores, unsigned keys) const
    {
        #pragma unroll
        for (int m = 0; m < M_TILES; ++m)
            #pragma unroll
            for (int n = 0; n < N_TILES; ++n)
                #pragma unroll
                for (int i = 0; i < 4; ++i) scores[m][n][i] = 0.0f;
        #pragma unroll
        for (int d = 0; d < HEAD_DIM; d += MMA_K) {
            #pragma unroll
            for (int n = 0; n < N_TILES; n += 2) {
                // Keys are rows of the tile and columns of K^T, so plain loads give their fragments.
                uint32_t k[4];
                ldmatrix(k, keys + Tile::offset(n * MMA_N + lane() / 16 * 8 + lane() % 8, d + lane() / 8 % 2 * 8));
                #pragma unroll
                for (int m = 0; m < M_TILES; ++m) {
                    mma_f16(scores[m][n], query[m][d / MMA_K], k[0], k[1]);
                    mma_f16(scores[m][n + 1], query[m][d / MMA_K], k[2], k[3]);
                }
            }
        }
    }

    // Adds P V to O.
    __device__ __forceinline__ void accumulate(const Scores& weights, unsigned values)
    {
        #pragma unroll
        for (int n = 0; n < N_TILES; n += 2) {
            uint32_t p[M_TILES][4];
            #pragma unroll
            for (int m = 0; m < M_TILES; ++m) pack_weights(p[m], weights[m][n], weights[m][n + 1]);
            #pragma unroll
            for (int d = 0; d < D_TILES; d += 2) {
                // This product sums over keys, which go along the rows of B, so they are loaded transposed.
                uint32_t v[4];
                ldmatrix_transposed(v, values + Tile::offset(n * MMA_N + lane() % 16, d * MMA_N + lane() / 16 * 8));
                #pragma unroll
                for (int m = 0; m < M_TILES; ++m) {
                    mma_f16(output.values[m][d], p[m], v[0], v[1]);
                    mma_f16(output.values[m][d + 1], p[m], v[2], v[3]);
                }
            }
        }
    }
};
