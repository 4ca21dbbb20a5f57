// Fused attention by one warp with everything between load and store in registers: scores, weights and
// the running output never touch shared memory (FlashAttention-2, algorithm 1; the formulas are those of
// attention.cuh). The warp has ROWS queries, 16 or 32 of them. Its loop over tiles of keys and values is
//
//   attend(keys, values)      S = Q K^T; maximum; P = 2^(S scale - m); O += P V
//
// and what it needs of shared memory is the two tiles, as HalfTile lays them out.
//
// The maximum m only keeps 2^x in range: any m will do that is not far below the true maximum. So m is
// raised only when a score exceeds it by more than HEADROOM (in powers of two), and only then is O
// rescaled and do the four lanes of a row compare their maxima. On normal inputs that is the first tile
// and few others. Weights are then at most 2^HEADROOM, as exact in f16 as weights up to 1.
#pragma once
#include "attention.cuh"
#include "fragments.cuh"

constexpr float HEADROOM = 8.0f;
constexpr float MASKED = -INFINITY;  // a score that does not count

// Which keys of a tile the queries of a warp may see, both counted from the tile's first key. A row may
// see none of a tile.
struct Mask {
    int valid_keys;    // the sequence ends here
    int query;         // the warp's first query; where IS_CAUSAL
};

// What weights relative to the maximum `from` have to be multiplied with to be relative to `to`. Both
// are MASKED where a row has seen no key yet.
__device__ __forceinline__ float change_of_maximum(float from, float to, float scale_log2)
{
    return from == to ? 1.0f : exp2_approx((from - to) * scale_log2);
}

template <int ROWS, bool SWIZZLED, bool IS_CAUSAL>
class WarpAttention {
    static_assert(ROWS == 16 || ROWS == 32, "one or two mma tiles of queries");
    static constexpr int M_TILES = ROWS / MMA_M;
    static constexpr int N_TILES = BLOCK_N / MMA_N;    // of scores
    static constexpr int D_TILES = HEAD_DIM / MMA_N;   // of the output
    using Tile = HalfTile<SWIZZLED, HEAD_DIM>;

    uint32_t query[M_TILES][HEAD_DIM / MMA_K][4];
    float output[M_TILES][D_TILES][4];
    float max[M_TILES][2];    // in units of raw scores; row g and row g + 8; the same in all four lanes
    float sum[M_TILES][2];    // of this lane's columns only

    static __device__ __forceinline__ int lane() { return threadIdx.x % WARP_SIZE; }

public:
    // For the merge below: what one warp leaves for another, lane by lane.
    static constexpr int STATE_FLOATS = M_TILES * (D_TILES * 4 + 4);
    static constexpr int STATE_BYTES = STATE_FLOATS * WARP_SIZE * int(sizeof(float));

    // `queries`: shared memory, ROWS rows starting at a multiple of 8.
    __device__ __forceinline__ void begin(unsigned queries)
    {
        #pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
            #pragma unroll
            for (int d = 0; d < HEAD_DIM / MMA_K; ++d)
                ldmatrix(query[m][d], queries + Tile::offset(m * MMA_M + lane() % 16, d * MMA_K + lane() / 16 * 8));
            #pragma unroll
            for (int d = 0; d < D_TILES; ++d)
                #pragma unroll
                for (int i = 0; i < 4; ++i) output[m][d][i] = 0.0f;
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                max[m][half] = MASKED;
                sum[m][half] = 0.0f;
            }
        }
    }

    using Scores = float[M_TILES][N_TILES][4];

    // S = Q K^T, in raw units.
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
                // Keys are rows of the tile and columns of K^T, so their fragments are plain loads.
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

    // Scores of keys that a query may not see become MASKED.
    static __device__ __forceinline__ void apply(const Mask& mask, Scores& scores)
    {
        if (mask.valid_keys >= BLOCK_N && !(IS_CAUSAL && mask.query < BLOCK_N - 1)) return;
        #pragma unroll
        for (int m = 0; m < M_TILES; ++m)
            #pragma unroll
            for (int n = 0; n < N_TILES; ++n)
                #pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int key = n * MMA_N + lane() % 4 * 2 + i % 2;
                    const int row = mask.query + m * MMA_M + lane() / 4 + i / 2 * 8;
                    if (key >= mask.valid_keys || (IS_CAUSAL && key > row)) scores[m][n][i] = MASKED;
                }
    }

    // The scores become weights P in place; m, l and O follow.
    __device__ __forceinline__ void weigh(Scores& scores, float scale_log2)
    {
        float top[M_TILES][2];
        bool grows = false;
        const float headroom = HEADROOM / scale_log2;
        #pragma unroll
        for (int m = 0; m < M_TILES; ++m)
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                top[m][half] = fmaxf(scores[m][0][2 * half], scores[m][0][2 * half + 1]);
                #pragma unroll
                for (int n = 1; n < N_TILES; ++n)
                    top[m][half] = fmaxf(top[m][half], fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
                grows |= top[m][half] > max[m][half] + headroom;
            }
        if (__any_sync(ALL_LANES, grows)) raise(top, scale_log2);

        #pragma unroll
        for (int m = 0; m < M_TILES; ++m)
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float shift = max[m][half] == MASKED ? 0.0f : max[m][half] * scale_log2;
                #pragma unroll
                for (int n = 0; n < N_TILES; ++n)
                    #pragma unroll
                    for (int i = 2 * half; i < 2 * half + 2; ++i) {
                        scores[m][n][i] = exp2_approx(fmaf(scores[m][n][i], scale_log2, -shift));
                        sum[m][half] += scores[m][n][i];
                    }
            }
    }

    // O += P V
    __device__ __forceinline__ void accumulate(const Scores& weights, unsigned values)
    {
        #pragma unroll
        for (int n = 0; n < N_TILES; n += 2) {
            uint32_t p[M_TILES][4];
            #pragma unroll
            for (int m = 0; m < M_TILES; ++m)
                #pragma unroll
                for (int i = 0; i < 4; ++i)
                    p[m][i] = pack_halves(weights[m][n + i / 2][i % 2 * 2], weights[m][n + i / 2][i % 2 * 2 + 1]);
            #pragma unroll
            for (int d = 0; d < D_TILES; d += 2) {
                // Keys are what this product sums over: they go along the rows of B, hence transposed.
                uint32_t v[4];
                ldmatrix_transposed(v, values + Tile::offset(n * MMA_N + lane() % 16, d * MMA_N + lane() / 16 * 8));
                #pragma unroll
                for (int m = 0; m < M_TILES; ++m) {
                    mma_f16(output[m][d], p[m], v[0], v[1]);
                    mma_f16(output[m][d + 1], p[m], v[2], v[3]);
                }
            }
        }
    }

    // This warp's m, l and O to shared memory at `state`, in the order of its registers.
    __device__ __forceinline__ void leave(float* state) const
    {
        float4* to = reinterpret_cast<float4*>(state) + lane();
        #pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
            *to = make_float4(max[m][0], max[m][1], sum[m][0], sum[m][1]);
            to += WARP_SIZE;
            #pragma unroll
            for (int d = 0; d < D_TILES; ++d, to += WARP_SIZE)
                *to = make_float4(output[m][d][0], output[m][d][1], output[m][d][2], output[m][d][3]);
        }
    }

    // Joins what another warp left for the same queries and other keys.
    __device__ __forceinline__ void join(const float* state, float scale_log2)
    {
        const float4* from = reinterpret_cast<const float4*>(state) + lane();
        #pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
            const float4 other = *from;
            from += WARP_SIZE;
            const float other_max[2] = {other.x, other.y};
            const float other_sum[2] = {other.z, other.w};
            float mine[2], theirs[2];
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float joint = fmaxf(max[m][half], other_max[half]);
                mine[half] = change_of_maximum(max[m][half], joint, scale_log2);
                theirs[half] = change_of_maximum(other_max[half], joint, scale_log2);
                max[m][half] = joint;
                sum[m][half] = sum[m][half] * mine[half] + other_sum[half] * theirs[half];
            }
            #pragma unroll
            for (int d = 0; d < D_TILES; ++d, from += WARP_SIZE) {
                const float4 o = *from;
                const float added[4] = {o.x, o.y, o.z, o.w};
                #pragma unroll
                for (int i = 0; i < 4; ++i)
                    output[m][d][i] = output[m][d][i] * mine[i / 2] + added[i] * theirs[i / 2];
            }
        }
    }

    // numerator * O / l: rows [0, valid_rows) to `out`, [ROWS, HEAD_DIM] row-major. The four lanes of a
    // row write 32 bytes side by side (f32), a whole sector.
    template <typename Out>
    __device__ __forceinline__ void store(Out* out, int valid_rows, float numerator) const
    {
        #pragma unroll
        for (int m = 0; m < M_TILES; ++m)
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                float total = sum[m][half];
                total += __shfl_xor_sync(ALL_LANES, total, 1);
                total += __shfl_xor_sync(ALL_LANES, total, 2);
                const float factor = numerator / total;
                const int row = m * MMA_M + half * 8 + lane() / 4;
                if (row >= valid_rows) continue;
                #pragma unroll
                for (int d = 0; d < D_TILES; ++d) {
                    Out* const to = out + row * HEAD_DIM + d * MMA_N + lane() % 4 * 2;
                    const float x = output[m][d][2 * half] * factor;
                    const float y = output[m][d][2 * half + 1] * factor;
                    if constexpr (sizeof(Out) == sizeof(float)) *reinterpret_cast<float2*>(to) = make_float2(x, y);
                    else *reinterpret_cast<__half2*>(to) = __floats2half2_rn(x, y);
                }
            }
    }

private:
    // m becomes the maximum of all scores so far where it lags behind by more than the headroom.
    __device__ __forceinline__ void raise(const float (&top)[M_TILES][2], float scale_log2)
    {
        #pragma unroll
        for (int m = 0; m < M_TILES; ++m)
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                float row_top = top[m][half];
                row_top = fmaxf(row_top, __shfl_xor_sync(ALL_LANES, row_top, 1));
                row_top = fmaxf(row_top, __shfl_xor_sync(ALL_LANES, row_top, 2));
                const float raised = fmaxf(max[m][half], row_top);
                const float factor = change_of_maximum(max[m][half], raised, scale_log2);
                max[m][half] = raised;
                sum[m][half] *= factor;
                #pragma unroll
                for (int d = 0; d < D_TILES; ++d) {
                    output[m][d][2 * half] *= factor;
                    output[m][d][2 * half + 1] *= factor;
                }
            }
    }
};
