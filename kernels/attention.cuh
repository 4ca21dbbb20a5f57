// The parts of fused attention that one warp does for its own ROWS queries. For each tile of BLOCK_N
// keys and values:
//
//   S = Q K^T                             scores_wmma / scores_scalar
//   x = S * scale * log2(e)               OnlineSoftmax::update
//   m' = max(m, rowmax x)
//   P = 2^(x - m'),  f = 2^(m - m')
//   l = l * f + rowsum P
//   O = O * f + P V                       OutputFma / OutputWmma: rescale, then accumulate
//
// and at the end O / l. Only 2^x is in the hardware, hence the factor log2(e).
//
// S and P pass through a strip of shared memory that belongs to the warp alone: [ROWS, SCORE_STRIDE]
// f32. P takes the place of S, as f32 or as f16 (then with a row stride of 2 * SCORE_STRIDE halves).
// `row_factor` is ROWS floats of shared memory, also the warp's own: f, later 1 / l. Because all of
// this is private to the warp, __syncwarp() between the steps is enough; it is left to the caller.
#pragma once
#include <mma.h>
#include "tiles.cuh"

namespace wmma = nvcuda::wmma;

constexpr int BLOCK_N = 64;                  // keys and values per tile
constexpr int SCORE_STRIDE = BLOCK_N + 4;    // floats; 16 bytes of padding, as for TILE_STRIDE
constexpr float LOG2_E = 1.4426950408889634f;
constexpr float SOFTMAX_SCALE = HEAD_DIM == 64 ? 0.125f : 0.08838834764831845f;  // 1 / sqrt(HEAD_DIM)
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "SOFTMAX_SCALE is written out");

// Returns the tensor-core tile of a warp that owns ROWS queries: m8n32k16, m16n16k16 or m32n8k16.
template <int ROWS>
struct WarpMma {
    static_assert(ROWS == 8 || ROWS == 16 || ROWS == 32, "a warp's WMMA tile has 8, 16 or 32 rows");
    static constexpr int N = 256 / ROWS;
    static constexpr int K = 16;
    using A = wmma::fragment<wmma::matrix_a, ROWS, N, K, __half, wmma::row_major>;
    using B = wmma::fragment<wmma::matrix_b, ROWS, N, K, __half, wmma::row_major>;
    using BTransposed = wmma::fragment<wmma::matrix_b, ROWS, N, K, __half, wmma::col_major>;
    using Accumulator = wmma::fragment<wmma::accumulator, ROWS, N, K, float>;
};

// ---- S = Q K^T -------------------------------------------------------------------------------

// query_fragment(i) returns columns [16 i, 16 i + 16) of the warp's queries as a fragment A.
template <int ROWS, typename QueryFragment>
__device__ __forceinline__ void scores_wmma(float* strip, QueryFragment query_fragment, const __half* keys)
{
    using Mma = WarpMma<ROWS>;
    #pragma unroll 1  // one accumulator at a time: unrolled, it gains 1 % and spills at 64 registers
    for (int n = 0; n < BLOCK_N; n += Mma::N) {
        typename Mma::Accumulator sum;
        wmma::fill_fragment(sum, 0.0f);
        #pragma unroll
        for (int d = 0; d < HEAD_DIM; d += Mma::K) {
            typename Mma::BTransposed k;  // keys are rows of memory and columns of K^T
            wmma::load_matrix_sync(k, keys + n * TILE_STRIDE + d, TILE_STRIDE);
            wmma::mma_sync(sum, query_fragment(d / Mma::K), k, sum);
        }
        wmma::store_matrix_sync(strip + n, sum, SCORE_STRIDE, wmma::mem_row_major);
    }
}

// Loads eight halves from a 16-byte aligned address.
__device__ __forceinline__ void load_eight(float (&to)[8], const __half* from)
{
    const uint4 packed = *reinterpret_cast<const uint4*>(from);
    const __half2* pairs = reinterpret_cast<const __half2*>(&packed);
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = __half22float2(pairs[i]);
        to[2 * i] = pair.x;
        to[2 * i + 1] = pair.y;
    }
}

// Works without tensor cores: a lane computes the scores of keys `lane` and `lane + 32`.
template <int ROWS>
__device__ __forceinline__ void scores_scalar(float* strip, const __half* queries, const __half* keys)
{
    constexpr int GROUP = ROWS < 8 ? ROWS : 8;  // rows at a time: bounds the registers
    const int lane = threadIdx.x % WARP_SIZE;
    #pragma unroll 1
    for (int first = 0; first < ROWS; first += GROUP) {
        float sum[GROUP][2] = {};
        #pragma unroll 1
        for (int d = 0; d < HEAD_DIM; d += 8) {
            float k0[8], k1[8];
            load_eight(k0, keys + lane * TILE_STRIDE + d);
            load_eight(k1, keys + (lane + WARP_SIZE) * TILE_STRIDE + d);
            #pragma unroll
            for (int row = 0; row < GROUP; ++row) {
                float q[8];
                load_eight(q, queries + (first + row) * TILE_STRIDE + d);
                #pragma unroll
                for (int i = 0; i < 8; ++i) {
                    sum[row][0] = fmaf(q[i], k0[i], sum[row][0]);
                    sum[row][1] = fmaf(q[i], k1[i], sum[row][1]);
                }
            }
        }
        #pragma unroll
        for (int row = 0; row < GROUP; ++row) {
            strip[(first + row) * SCORE_STRIDE + lane] = sum[row][0];
            strip[(first + row) * SCORE_STRIDE + lane + WARP_SIZE] = sum[row][1];
        }
    }
}

// Returns 2^x by one instruction. exp2f() spends three more on results below 2^-126, which weigh
// nothing here. The relative error is about 2^-22, and 2^-inf is 0.
__device__ __forceinline__ float exp2_approx(float x)
{
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// ---- online softmax --------------------------------------------------------------------------
//
// How the maximum and the sum of a row are found: all lanes of the warp take part and compare what they have
// (OnlineSoftmax), or one lane goes through the row (SerialSoftmax). Both have the same functions.

// Weight is the type in which P is stored: f32, or f16 for tensor cores.
template <int ROWS, typename Weight>
class OnlineSoftmax {
    // 32 / ROWS lanes share a row. Lanes with neighbouring numbers have different rows: with the
    // padded stride their 16-byte accesses then fall into different banks.
    static constexpr int COLUMNS = BLOCK_N * ROWS / WARP_SIZE;  // of each lane
    float running_max = -INFINITY;                              // of the row, in units of log2
    float partial_sum = 0.0f;                                   // of this lane's columns only

public:
    static __device__ int row() { return threadIdx.x % WARP_SIZE % ROWS; }
    static __device__ int first_column() { return threadIdx.x % WARP_SIZE / ROWS * COLUMNS; }

    // Turns S in the strip into P, and sets row_factor to f. In this lane's row the first
    // `valid_keys` keys count. There must have been at least one by the end of the first tile.
    __device__ __forceinline__ void update(float* strip, float* row_factor, float scale_log2, int valid_keys)
    {
        float* const scores = strip + row() * SCORE_STRIDE + first_column();
        float x[COLUMNS];
        float new_max = running_max;
        #pragma unroll
        for (int i = 0; i < COLUMNS; i += 4) {
            const float4 s = *reinterpret_cast<const float4*>(scores + i);
            const float four[4] = {s.x, s.y, s.z, s.w};
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                x[i + j] = first_column() + i + j < valid_keys ? four[j] * scale_log2 : -INFINITY;
                new_max = fmaxf(new_max, x[i + j]);
            }
        }
        #pragma unroll
        for (int distance = ROWS; distance < WARP_SIZE; distance *= 2)
            new_max = fmaxf(new_max, __shfl_xor_sync(ALL_LANES, new_max, distance));

        const float factor = exp2_approx(running_max - new_max);  // 2^-inf = 0 on the first tile
        running_max = new_max;
        partial_sum *= factor;
        #pragma unroll
        for (int i = 0; i < COLUMNS; ++i) x[i] = exp2_approx(x[i] - new_max);
        write_weights(strip, x);
        if (first_column() == 0) row_factor[row()] = factor;
    }

    // Sets row_factor to numerator / l.
    __device__ __forceinline__ void finish(float* row_factor, float numerator)
    {
        float sum = partial_sum;
        #pragma unroll
        for (int distance = ROWS; distance < WARP_SIZE; distance *= 2)
            sum += __shfl_xor_sync(ALL_LANES, sum, distance);
        if (first_column() == 0) row_factor[row()] = numerator / sum;
    }

private:
    __device__ __forceinline__ void write_weights(float* strip, const float (&p)[COLUMNS])
    {
        if constexpr (sizeof(Weight) == sizeof(float)) {
            float4* to = reinterpret_cast<float4*>(strip + row() * SCORE_STRIDE + first_column());
            #pragma unroll
            for (int i = 0; i < COLUMNS; i += 4) {
                to[i / 4] = make_float4(p[i], p[i + 1], p[i + 2], p[i + 3]);
                partial_sum += (p[i] + p[i + 1]) + (p[i + 2] + p[i + 3]);
            }
        } else {
            __syncwarp();  // a lane's halves land on scores of another: all must have been read
            uint4* to = reinterpret_cast<uint4*>(
                reinterpret_cast<__half*>(strip) + row() * 2 * SCORE_STRIDE + first_column());
            #pragma unroll
            for (int i = 0; i < COLUMNS; i += 8) {
                __align__(16) __half2 rounded[4];
                #pragma unroll
                for (int j = 0; j < 4; ++j) {
                    rounded[j] = __floats2half2_rn(p[i + 2 * j], p[i + 2 * j + 1]);
                    // l sums what P V will use, so that the weights still add up to 1.
                    const float2 used = __half22float2(rounded[j]);
                    partial_sum += used.x + used.y;
                }
                to[i / 8] = *reinterpret_cast<const uint4*>(rounded);
            }
        }
    }
};

// One lane works on each row, and the other lanes wait. A row is read twice, for its maximum and
// for its weights, because 64 scores do not fit into the registers of one lane.
template <int ROWS, typename Weight>
class SerialSoftmax {
    float running_max = -INFINITY;  // of the row, in units of log2
    float sum = 0.0f;

    static __device__ int lane() { return threadIdx.x % WARP_SIZE; }

public:
    static __device__ int row() { return lane() % ROWS; }

    // Does the same as OnlineSoftmax::update.
    __device__ __forceinline__ void update(float* strip, float* row_factor, float scale_log2, int valid_keys)
    {
        if (lane() >= ROWS) return;
        float* const scores = strip + row() * SCORE_STRIDE;
        float new_max = running_max;
        #pragma unroll 4
        for (int key = 0; key < BLOCK_N; key += 4) {
            float x[4];
            load_four(x, scores + key, scale_log2, valid_keys - key);
            new_max = fmaxf(new_max, fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3])));
        }
        const float factor = exp2_approx(running_max - new_max);  // 2^-inf = 0 on the first tile
        running_max = new_max;
        sum *= factor;
        #pragma unroll 4
        for (int key = 0; key < BLOCK_N; key += 4) {
            float p[4];
            load_four(p, scores + key, scale_log2, valid_keys - key);
            #pragma unroll
            for (int i = 0; i < 4; ++i) p[i] = exp2_approx(p[i] - new_max);
            write_four(scores, key, p);
        }
        row_factor[row()] = factor;
    }

    // Sets row_factor to numerator / l.
    __device__ __forceinline__ void finish(float* row_factor, float numerator)
    {
        if (lane() < ROWS) row_factor[row()] = numerator / sum;
    }

private:
    static __device__ __forceinline__ void load_four(float (&x)[4], const float* scores, float scale_log2, int valid_keys)
    {
        const float4 s = *reinterpret_cast<const float4*>(scores);
        const float four[4] = {s.x, s.y, s.z, s.w};
        #pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = i < valid_keys ? four[i] * scale_log2 : -INFINITY;
    }

    // Halves are stored over scores that this lane has read: half `key` is where score `key / 2` was.
    __device__ __forceinline__ void write_four(float* row_of_scores, int key, const float (&p)[4])
    {
        if constexpr (sizeof(Weight) == sizeof(float)) {
            *reinterpret_cast<float4*>(row_of_scores + key) = make_float4(p[0], p[1], p[2], p[3]);
            sum += (p[0] + p[1]) + (p[2] + p[3]);
        } else {
            __align__(8) __half2 rounded[2] = {__floats2half2_rn(p[0], p[1]), __floats2half2_rn(p[2], p[3])};
            *reinterpret_cast<uint2*>(reinterpret_cast<__half*>(row_of_scores) + key) =
                *reinterpret_cast<const uint2*>(rounded);
            const float2 low = __half22float2(rounded[0]), high = __half22float2(rounded[1]);
            sum += (low.x + low.y) + (high.x + high.y);  // what P V will use, so that the weights still sum to 1
        }
    }
};

// ---- O = O * f + P V --------------------------------------------------------------------------

// Works without tensor cores: a lane keeps two columns of all ROWS rows. If PAIRED, these are columns 2 * lane and
// the next, whose values come in one half2. Otherwise they are columns lane and lane + 32, a half at a time.
template <int ROWS, bool PAIRED>
class OutputFma {
    float2 sum[ROWS] = {};

    static __device__ int first_column() { return threadIdx.x % WARP_SIZE * (PAIRED ? 2 : 1); }
    static constexpr int NEXT_COLUMN = PAIRED ? 1 : WARP_SIZE;

    static __device__ __forceinline__ float2 load(const __half* row_of_values)
    {
        const __half* const value = row_of_values + first_column();
        if constexpr (PAIRED) return __half22float2(*reinterpret_cast<const __half2*>(value));
        else return make_float2(__half2float(value[0]), __half2float(value[NEXT_COLUMN]));
    }

public:
    using Weight = float;

    __device__ __forceinline__ void rescale(const float* row_factor)
    {
        #pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            const float factor = row_factor[row];
            sum[row].x *= factor;
            sum[row].y *= factor;
        }
    }

    __device__ __forceinline__ void accumulate(const float* strip, const __half* values)
    {
        // All of it is unrolled, because a loop would wait for shared memory at the top of every turn.
        #pragma unroll
        for (int key = 0; key < BLOCK_N; key += 4) {
            float2 v[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) v[i] = load(values + (key + i) * TILE_STRIDE);
            #pragma unroll
            for (int row = 0; row < ROWS; ++row) {
                // All lanes read the same 16 bytes, which is one broadcast.
                const float4 packed = *reinterpret_cast<const float4*>(strip + row * SCORE_STRIDE + key);
                const float p[4] = {packed.x, packed.y, packed.z, packed.w};
                #pragma unroll
                for (int i = 0; i < 4; ++i) {
                    sum[row].x = fmaf(p[i], v[i].x, sum[row].x);
                    sum[row].y = fmaf(p[i], v[i].y, sum[row].y);
                }
            }
        }
    }

    // Stores rows [0, valid_rows) to `out`: [ROWS, HEAD_DIM], row-major. The strip is not needed here.
    template <typename Out>
    __device__ __forceinline__ void store(Out* out, float* /*strip*/, int valid_rows) const
    {
        #pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            if (row < valid_rows) {
                out[row * HEAD_DIM + first_column()] = Out(sum[row].x);
                out[row * HEAD_DIM + first_column() + NEXT_COLUMN] = Out(sum[row].y);
            }
        }
    }
};

// Works with tensor cores: O stays in accumulator fragments.
template <int ROWS>
class OutputWmma {
    using Mma = WarpMma<ROWS>;
    static constexpr int TILES = HEAD_DIM / Mma::N;
    typename Mma::Accumulator sum[TILES];

public:
    using Weight = __half;

    __device__ __forceinline__ OutputWmma()
    {
        #pragma unroll
        for (int n = 0; n < TILES; ++n) wmma::fill_fragment(sum[n], 0.0f);
    }

    // It is not specified to which row an element of a fragment belongs. But a matrix with f[row]
    // in every column, loaded as a fragment, has each factor where its row is. Column-major with a
    // leading dimension of 0 makes that matrix out of the ROWS factors alone.
    __device__ __forceinline__ void rescale(const float* row_factor)
    {
        typename Mma::Accumulator factor;
        wmma::load_matrix_sync(factor, row_factor, 0, wmma::mem_col_major);
        #pragma unroll
        for (int n = 0; n < TILES; ++n)
            #pragma unroll
            for (int i = 0; i < factor.num_elements; ++i) sum[n].x[i] *= factor.x[i];
    }

    __device__ __forceinline__ void accumulate(const float* strip, const __half* values)
    {
        const __half* weights = reinterpret_cast<const __half*>(strip);
        #pragma unroll
        for (int key = 0; key < BLOCK_N; key += Mma::K) {
            typename Mma::A p;
            wmma::load_matrix_sync(p, weights + key, 2 * SCORE_STRIDE);
            #pragma unroll
            for (int n = 0; n < TILES; ++n) {
                typename Mma::B v;
                wmma::load_matrix_sync(v, values + key * TILE_STRIDE + n * Mma::N, TILE_STRIDE);
                wmma::mma_sync(sum[n], p, v, sum[n]);
            }
        }
    }

    // Stores rows [0, valid_rows) to `out`: [ROWS, HEAD_DIM], row-major, through the strip.
    template <typename Out>
    __device__ __forceinline__ void store(Out* out, float* strip, int valid_rows) const
    {
        const int lane = threadIdx.x % WARP_SIZE;
        __syncwarp();  // P may still be read
        #pragma unroll
        for (int n = 0; n < TILES; ++n)
            wmma::store_matrix_sync(strip + n * Mma::N, sum[n], SCORE_STRIDE, wmma::mem_row_major);
        __syncwarp();
        #pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            if (row < valid_rows) {
                out[row * HEAD_DIM + lane] = Out(strip[row * SCORE_STRIDE + lane]);
                out[row * HEAD_DIM + lane + WARP_SIZE] = Out(strip[row * SCORE_STRIDE + lane + WARP_SIZE]);
            }
        }
    }
};
