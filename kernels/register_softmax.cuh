// Online softmax on scores that stay in a warp's registers, and the running output beside it. Both lie as
// mma.sync's C does (fragments.cuh), and so do the accumulators of wgmma (PTX ISA, "Register Fragments for
// wgmma.mma_async.m64nNk16": warp i of the warpgroup has rows 16 i to 16 i + 15 in that same order). The
// formulas are those of attention.cuh.
//
// The maximum m only keeps 2^x in range: any m will do that is not far below the true maximum. So m is
// raised only when a score exceeds it by more than HEADROOM (in powers of two), and only then is O
// rescaled and do the four lanes of a row compare their maxima. On normal inputs that is the first tile
// and few others. Weights are then at most 2^HEADROOM, as exact in f16 as weights up to 1.
#pragma once
#include "attention.cuh"
#include "fast_exp.cuh"
#include "fragments.cuh"

#ifndef FAST_EXP_SHARE
#define FAST_EXP_SHARE 0     // of 8 exponentials that many by a polynomial, fast_exp.cuh
#endif
static_assert(FAST_EXP_SHARE >= 0 && FAST_EXP_SHARE <= 8, "of 8");

constexpr float HEADROOM = 8.0f;
constexpr float MASKED = -INFINITY;  // a score that does not count

// The keys of a tile that the queries of a warp may see, both counted from the tile's first key. A
// row may see none of a tile.
struct Mask {
    int valid_keys;    // the sequence ends here
    int query;         // the warp's first query; where IS_CAUSAL
};

// Returns the factor from weights relative to the maximum `from` to weights relative to `to`. Both
// are MASKED where a row has seen no key yet.
__device__ __forceinline__ float change_of_maximum(float from, float to, float scale_log2)
{
    return from == to ? 1.0f : exp2_approx((from - to) * scale_log2);
}

// One number for each of a lane's rows: row g and row g + 8 of each of M_TILES tiles of 16 rows.
template <int M_TILES>
using PerRow = float[M_TILES][2];

template <int M_TILES, int KEYS>
class RegisterSoftmax {
    static constexpr int N_TILES = KEYS / MMA_N;

public:
    using Scores = float[M_TILES][N_TILES][4];

    PerRow<M_TILES> max;    // in units of raw scores; the same in all four lanes of a row
    PerRow<M_TILES> sum;    // of this lane's columns only

    __device__ __forceinline__ void begin()
    {
        #pragma unroll
        for (int m = 0; m < M_TILES; ++m)
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                max[m][half] = MASKED;
                sum[m][half] = 0.0f;
            }
    }

    // Sets scores of keys that a query may not see to MASKED.
    template <bool IS_CAUSAL>
    static __device__ __forceinline__ void apply(const Mask& mask, Scores& scores)
    {
        if (mask.valid_keys >= KEYS && !(IS_CAUSAL && mask.query < KEYS - 1)) return;
        const int lane = threadIdx.x % WARP_SIZE;
        #pragma unroll
        for (int m = 0; m < M_TILES; ++m)
            #pragma unroll
            for (int n = 0; n < N_TILES; ++n)
                #pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int key = n * MMA_N + lane % 4 * 2 + i % 2;
                    const int row = mask.query + m * MMA_M + lane / 4 + i / 2 * 8;
                    if (key >= mask.valid_keys || (IS_CAUSAL && key > row)) scores[m][n][i] = MASKED;
                }
    }

    // The first step of a tile updates m from its scores, and l. If it returns true, as it does for
    // all lanes alike, the output so far must be multiplied by `factor`.
    __device__ __forceinline__ bool follow(const Scores& scores, PerRow<M_TILES>& factor, float scale_log2)
    {
        const float headroom = HEADROOM / scale_log2;
        bool grows = false;
        #pragma unroll
        for (int m = 0; m < M_TILES; ++m)
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                // Does a score exceed the limit? Positive floats have the order of their bits as integers, and
                // Hopper has an instruction for the largest of three integers, but none for floats. Under a
                // negative limit the order does not help, and the exact maximum is asked for.
                int top = __float_as_int(MASKED);
                #pragma unroll
                for (int n = 0; n < N_TILES; ++n)
                    top = __vimax3_s32(top, __float_as_int(scores[m][n][2 * half]), __float_as_int(scores[m][n][2 * half + 1]));
                const float limit = max[m][half] + headroom;
                grows |= !(limit >= 0.0f) || top > __float_as_int(limit);
            }
        const bool raised = __any_sync(ALL_LANES, grows);
        if (raised) raise(scores, factor, scale_log2);
        return raised;
    }

    // The second step turns the scores into weights P in place, and adds them to l. It returns a sum of
    // weights that is known when PASS of 8 parts of each row are done, for callers that wait for that.
    template <int PASS = 8>
    __device__ __forceinline__ float weigh(Scores& scores, float scale_log2)
    {
        float known = 0.0f;
        #pragma unroll
        for (int m = 0; m < M_TILES; ++m)
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float shift = max[m][half] == MASKED ? 0.0f : max[m][half] * scale_log2;
                #pragma unroll
                for (int n = 0; n < N_TILES; ++n)
                    #pragma unroll
                    for (int i = 2 * half; i < 2 * half + 2; ++i) {
                        const float x = fmaf(scores[m][n][i], scale_log2, -shift);
                        const bool fast = (n * 2 + i % 2) % 8 < FAST_EXP_SHARE;
                        scores[m][n][i] = fast ? exp2_polynomial(x) : exp2_approx(x);
                        sum[m][half] += scores[m][n][i];
                        if (n == N_TILES * PASS / 8 - 1) known = fmaxf(known, sum[m][half]);
                    }
            }
        return known;
    }

private:
    __device__ __forceinline__ void raise(const Scores& scores, PerRow<M_TILES>& factor, float scale_log2)
    {
        #pragma unroll
        for (int m = 0; m < M_TILES; ++m)
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                float raised = max[m][half];
                #pragma unroll
                for (int n = 0; n < N_TILES; ++n)
                    raised = fmaxf(raised, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
                raised = fmaxf(raised, __shfl_xor_sync(ALL_LANES, raised, 1));
                raised = fmaxf(raised, __shfl_xor_sync(ALL_LANES, raised, 2));
                factor[m][half] = change_of_maximum(max[m][half], raised, scale_log2);
                max[m][half] = raised;
                sum[m][half] *= factor[m][half];
            }
    }
};

// The output O, not yet divided by l.
template <int M_TILES, int KEYS>
class RegisterOutput {
    static constexpr int D_TILES = HEAD_DIM / MMA_N;
    using Softmax = RegisterSoftmax<M_TILES, KEYS>;

    static __device__ __forceinline__ int lane() { return threadIdx.x % WARP_SIZE; }

public:
    float values[M_TILES][D_TILES][4];

    // The number of floats that one warp leaves for another in shared memory, in the order of its registers.
    static constexpr int STATE_FLOATS = M_TILES * (D_TILES + 1) * 4 * WARP_SIZE;

    __device__ __forceinline__ void begin()
    {
        #pragma unroll
        for (int m = 0; m < M_TILES; ++m)
            #pragma unroll
            for (int d = 0; d < D_TILES; ++d)
                #pragma unroll
                for (int i = 0; i < 4; ++i) values[m][d][i] = 0.0f;
    }

    __device__ __forceinline__ void rescale(const PerRow<M_TILES>& factor)
    {
        #pragma unroll
        for (int m = 0; m < M_TILES; ++m)
            #pragma unroll
            for (int d = 0; d < D_TILES; ++d)
                #pragma unroll
                for (int i = 0; i < 4; ++i) values[m][d][i] *= factor[m][i / 2];
    }

    __device__ __forceinline__ void leave(const Softmax& softmax, float* state) const
    {
        float4* to = reinterpret_cast<float4*>(state) + lane();
        #pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
            *to = make_float4(softmax.max[m][0], softmax.max[m][1], softmax.sum[m][0], softmax.sum[m][1]);
            to += WARP_SIZE;
            #pragma unroll
            for (int d = 0; d < D_TILES; ++d, to += WARP_SIZE)
                *to = make_float4(values[m][d][0], values[m][d][1], values[m][d][2], values[m][d][3]);
        }
    }

    // Joins the state that another warp left for the same queries and other keys.
    __device__ __forceinline__ void join(Softmax& softmax, const float* state, float scale_log2)
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
                const float joint = fmaxf(softmax.max[m][half], other_max[half]);
                mine[half] = change_of_maximum(softmax.max[m][half], joint, scale_log2);
                theirs[half] = change_of_maximum(other_max[half], joint, scale_log2);
                softmax.max[m][half] = joint;
                softmax.sum[m][half] = softmax.sum[m][half] * mine[half] + other_sum[half] * theirs[half];
            }
            #pragma unroll
            for (int d = 0; d < D_TILES; ++d, from += WARP_SIZE) {
                const float4 o = *from;
                const float added[4] = {o.x, o.y, o.z, o.w};
                #pragma unroll
                for (int i = 0; i < 4; ++i)
                    values[m][d][i] = values[m][d][i] * mine[i / 2] + added[i] * theirs[i / 2];
            }
        }
    }

    // Stores numerator * O / l: rows [0, valid_rows) to `out`, [16 M_TILES, HEAD_DIM] row-major.
    // The four lanes of a row write 32 bytes side by side (f32), a whole sector.
    template <typename Out>
    __device__ __forceinline__ void store(const Softmax& softmax, Out* out, int valid_rows, float numerator) const
    {
        #pragma unroll
        for (int m = 0; m < M_TILES; ++m)
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                float total = softmax.sum[m][half];
                total += __shfl_xor_sync(ALL_LANES, total, 1);
                total += __shfl_xor_sync(ALL_LANES, total, 2);
                const float factor = numerator / total;
                const int row = m * MMA_M + half * 8 + lane() / 4;
                if (row >= valid_rows) continue;
                #pragma unroll
                for (int d = 0; d < D_TILES; ++d) {
                    Out* const to = out + row * HEAD_DIM + d * MMA_N + lane() % 4 * 2;
                    const float x = values[m][d][2 * half] * factor;
                    const float y = values[m][d][2 * half + 1] * factor;
                    if constexpr (sizeof(Out) == sizeof(float)) *reinterpret_cast<float2*>(to) = make_float2(x, y);
                    else *reinterpret_cast<__half2*>(to) = __floats2half2_rn(x, y);
                }
            }
    }
};
