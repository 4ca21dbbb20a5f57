// One tile of attention that times itself, for `gatekeeper tune --rank`: a block has BLOCK_M queries and goes through all
// keys, BLOCK_K at a time.
//
//   S = Q K^T               tensor cores
//   P = 2^(S scale - m)     online softmax, in registers
//   O = O + P V             tensor cores
//
// STAGES tiles of keys and values lie in shared memory: one is worked on while the others are on their way, copied
// with cp.async, VEC_WIDTH halves a copy. A warp has 16 queries.
//
// Compared with: out = softmax(q k^T / 8) v over heads of 64. Keys are a multiple of BLOCK_K.
#include <cuda_fp16.h>

constexpr int HEAD = 64;
constexpr int WARP_ROWS = 16;
constexpr int THREADS = BLOCK_M / WARP_ROWS * 32;
// Eight rows, 16 bytes of each, lie in 32 different banks.
constexpr int STRIDE = HEAD + 8;
constexpr int TILE = BLOCK_K * STRIDE;
constexpr int NUM_SCORES = BLOCK_K / 8;
constexpr int NUM_OUTPUTS = HEAD / 8;
// log2(e) / sqrt(HEAD)
constexpr float SCALE_LOG2 = 0.18033688011f;

static_assert(BLOCK_M % WARP_ROWS == 0 && THREADS <= 1024, "BLOCK_M is a multiple of 16, and at most 512");
static_assert(BLOCK_K % 16 == 0, "BLOCK_K is a multiple of 16");
static_assert(STAGES >= 1, "STAGES is at least 1");
static_assert(VEC_WIDTH == 2 || VEC_WIDTH == 4 || VEC_WIDTH == 8, "cp.async copies 4, 8 or 16 bytes");

__device__ __forceinline__ unsigned shared_address(const void* pointer)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void copy_async(__half* to, const __half* from)
{
    if constexpr (VEC_WIDTH == 8)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from), "n"(VEC_WIDTH * 2) : "memory");
}

// Rows of HEAD halves, side by side in memory.
__device__ __forceinline__ void copy_tile(__half* to, const __half* from)
{
    constexpr int PER_ROW = HEAD / VEC_WIDTH;
#pragma unroll
    for (int i = threadIdx.x; i < BLOCK_K * PER_ROW; i += THREADS) {
        const int row = i / PER_ROW, column = i % PER_ROW * VEC_WIDTH;
        copy_async(to + row * STRIDE + column, from + row * HEAD + column);
    }
}

__device__ __forceinline__ void load_matrices(unsigned (&to)[4], const __half* from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from))
                 : "memory");
}

__device__ __forceinline__ void load_transposed(unsigned (&to)[4], const __half* from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from))
                 : "memory");
}

__device__ __forceinline__ void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned pack(float low, float high)
{
    const __half2 both = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&both);
}

// The four lanes that have a row agree.
__device__ __forceinline__ float max_of_row(float value)
{
    value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, 1));
    return fmaxf(value, __shfl_xor_sync(0xffffffff, value, 2));
}

__device__ __forceinline__ float sum_of_row(float value)
{
    value += __shfl_xor_sync(0xffffffff, value, 1);
    return value + __shfl_xor_sync(0xffffffff, value, 2);
}

// Nothing moves across it.
__device__ __forceinline__ long long read_clock()
{
    long long now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
    return now;
}

// q and out: [blocks, BLOCK_M, HEAD]; k and v: [keys, HEAD]; cycles: [blocks, repeats]; done: one, 0 before the launch.
// Blocks that have their cycles work on, uncounted, until all have: the others would be faster without them. They do so
// for `most` repeats in all, in case that not all blocks run at a time.
extern "C" __global__ void __launch_bounds__(THREADS)
    tile(const __half* q, const __half* k, const __half* v, float* out, long long* cycles, unsigned* done, int keys, int repeats, int most)
{
    extern __shared__ __align__(16) __half tiles[];
    __half* const tile_k = tiles;
    __half* const tile_v = tiles + STAGES * TILE;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = lane / 4, column = lane % 4 * 2;
    const long long first = (static_cast<long long>(blockIdx.x) * BLOCK_M + warp * WARP_ROWS) * HEAD;
    const int steps = keys / BLOCK_K;

    unsigned query[HEAD / 16][4];
#pragma unroll
    for (int d = 0; d < HEAD / 16; ++d)
#pragma unroll
        for (int i = 0; i < 4; ++i)
            query[d][i] = *reinterpret_cast<const unsigned*>(q + first + (row + i % 2 * 8) * HEAD + d * 16 + i / 2 * 8 + column);

    for (int repeat = 0; repeat < most; ++repeat) {
        float output[NUM_OUTPUTS][4] = {};
        float max[2] = {-INFINITY, -INFINITY}, sum[2] = {};
        __syncthreads();
        const long long start = read_clock();

        const auto begin = [&](int step) {
            if (step < steps) {
                copy_tile(tile_k + step % STAGES * TILE, k + static_cast<long long>(step) * BLOCK_K * HEAD);
                copy_tile(tile_v + step % STAGES * TILE, v + static_cast<long long>(step) * BLOCK_K * HEAD);
            }
            asm volatile("cp.async.commit_group;" ::: "memory");
        };
#pragma unroll
        for (int step = 0; step < STAGES - 1; ++step) begin(step);
        for (int step = 0; step < steps; ++step) {
            begin(step + STAGES - 1);
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
            __syncthreads();
            const __half* const keys_here = tile_k + step % STAGES * TILE;
            const __half* const values_here = tile_v + step % STAGES * TILE;

            float score[NUM_SCORES][4] = {};
#pragma unroll
            for (int d = 0; d < HEAD / 16; ++d)
#pragma unroll
                for (int n = 0; n < NUM_SCORES; n += 2) {
                    unsigned b[4];
                    load_matrices(b, keys_here + (n * 8 + lane / 16 * 8 + lane % 8) * STRIDE + d * 16 + lane / 8 % 2 * 8);
                    multiply(score[n], query[d], b[0], b[1]);
                    multiply(score[n + 1], query[d], b[2], b[3]);
                }

            float factor[2];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float highest = max[half];
#pragma unroll
                for (int n = 0; n < NUM_SCORES; ++n) highest = fmaxf(highest, fmaxf(score[n][2 * half], score[n][2 * half + 1]));
                highest = max_of_row(highest);
                factor[half] = exp2f((max[half] - highest) * SCALE_LOG2);
                max[half] = highest;
                sum[half] *= factor[half];
#pragma unroll
                for (int n = 0; n < NUM_SCORES; ++n)
#pragma unroll
                    for (int i = 2 * half; i < 2 * half + 2; ++i) {
                        score[n][i] = exp2f((score[n][i] - highest) * SCALE_LOG2);
                        sum[half] += score[n][i];
                    }
            }
#pragma unroll
            for (int n = 0; n < NUM_OUTPUTS; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) output[n][i] *= factor[i / 2];

#pragma unroll
            for (int n = 0; n < NUM_SCORES; n += 2) {
                const unsigned weights[4] = {pack(score[n][0], score[n][1]), pack(score[n][2], score[n][3]),
                                             pack(score[n + 1][0], score[n + 1][1]), pack(score[n + 1][2], score[n + 1][3])};
#pragma unroll
                for (int d = 0; d < NUM_OUTPUTS; d += 2) {
                    unsigned b[4];
                    load_transposed(b, values_here + (n * 8 + lane % 16) * STRIDE + d * 8 + lane / 16 * 8);
                    multiply(output[d], weights, b[0], b[1]);
                    multiply(output[d + 1], weights, b[2], b[3]);
                }
            }
            // The next copy overwrites what others may still read.
            __syncthreads();
        }

        const long long stop = read_clock();
        if (threadIdx.x == 0 && repeat < repeats) cycles[static_cast<long long>(blockIdx.x) * repeats + repeat] = stop - start;
        // Writes of one block would slow the repeats of another. No repeat can be left out for it: its products are
        // volatile, and go into one another.
        if (repeat + 1 < repeats) continue;
        bool all = false;
        if (threadIdx.x == 0) {
            const unsigned now = repeat + 1 == repeats;
            all = atomicAdd(done, now) + now >= gridDim.x;
        }
        if (!__syncthreads_or(all) && repeat + 1 < most) continue;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float scale = 1.0f / sum_of_row(sum[half]);
            float* const to = out + first + (row + half * 8) * HEAD;
#pragma unroll
            for (int n = 0; n < NUM_OUTPUTS; ++n) {
                to[n * 8 + column] = output[n][2 * half] * scale;
                to[n * 8 + column + 1] = output[n][2 * half + 1] * scale;
            }
        }
        break;
    }
}
