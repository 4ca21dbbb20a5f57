// One kind of memory access per kernel, so that a hardware counter has one cause. Every kernel takes
// (const float* in, float* out) and runs as 4 blocks of 256 threads; `in` and `out` hold 2^20 floats.
#include <cuda_fp16.h>
#include <cuda_pipeline_primitives.h>
#include <cstdint>
#include <mma.h>

#pragma nv_diag_suppress 550
#define KERNEL(name) extern "C" __global__ void __launch_bounds__(256) name(const float* __restrict__ in, float* __restrict__ out)
#define LANE (threadIdx.x % 32)
#define WARP (threadIdx.x / 32)
#define ME (blockIdx.x * 256 + threadIdx.x)

// ---- shared memory: words of 4, 8 and 16 bytes, each lane `STRIDE` words from the next ----
template <class T, int STRIDE>
__device__ void strided(const float* in, float* out, T* s) {
    const T* from = reinterpret_cast<const T*>(in);
    T* to = reinterpret_cast<T*>(out);
    s[(LANE * STRIDE + WARP) % (256 * 4)] = from[ME];
    __syncthreads();
    to[ME] = s[((LANE ^ 1) * STRIDE + WARP) % (256 * 4)];
}
#define STRIDED(name, T, STRIDE) \
    KERNEL(name) { __shared__ T s[256 * 4]; strided<T, STRIDE>(in, out, s); }
STRIDED(shared32_free, float, 1)
STRIDED(shared32_2way, float, 2)
STRIDED(shared32_3, float, 3)
STRIDED(shared32_8way, float, 8)
STRIDED(shared32_32way, float, 32)
STRIDED(shared32_33, float, 33)
STRIDED(shared64_free, float2, 1)
STRIDED(shared64_2, float2, 2)
STRIDED(shared64_8, float2, 8)
STRIDED(shared64_17, float2, 17)
STRIDED(shared64_32, float2, 32)
STRIDED(shared128_free, float4, 1)
STRIDED(shared128_2, float4, 2)
STRIDED(shared128_3, float4, 3)
STRIDED(shared128_8, float4, 8)
STRIDED(shared128_9, float4, 9)
STRIDED(shared128_32, float4, 32)
STRIDED(shared16_free, unsigned short, 1)
STRIDED(shared16_2, unsigned short, 2)
STRIDED(shared16_64, unsigned short, 64)
STRIDED(shared8_free, unsigned char, 1)
STRIDED(shared8_4, unsigned char, 4)
STRIDED(shared8_128, unsigned char, 128)

// ---- shared loads of any index: store once without conflict, load by a rule ----
#define GATHER(name, T, INDEX)                                                  \
    KERNEL(name) {                                                              \
        __shared__ T s[256];                                                    \
        s[threadIdx.x] = reinterpret_cast<const T*>(in)[ME];                    \
        __syncthreads();                                                        \
        unsigned lane = LANE, warp = WARP;                                      \
        (void)lane; (void)warp;                                                 \
        reinterpret_cast<T*>(out)[ME] = s[INDEX];                               \
    }
GATHER(broadcast32, float, warp)
GATHER(broadcast64, float2, warp)
GATHER(broadcast128, float4, warp)
GATHER(halves32, float, lane / 16 * 32 + warp)
GATHER(halves64, float2, lane / 16 * 16 + warp)
GATHER(halves128, float4, lane / 16 * 8 + warp)
GATHER(quads64, float2, lane / 4 + warp)
GATHER(quads128, float4, lane / 4 + warp)
GATHER(octets128, float4, lane / 8 + warp)
GATHER(modulo4_128, float4, lane % 4 + warp)
GATHER(modulo8_128, float4, lane % 8 + warp)
GATHER(modulo2_64, float2, lane % 2 * 16 + warp)
GATHER(pairs64, float2, lane / 2 + warp)
GATHER(pairs64_apart, float2, lane % 16 + warp)
GATHER(bits128, float4, (lane * 5 + lane / 3) % 32 + warp)
GATHER(bits64, float2, (lane * 7 + lane / 5) % 64 + warp)
GATHER(bits32, float, (lane * 11 + lane * lane) % 200 + warp)
GATHER(reverse128, float4, 255 - threadIdx.x)
GATHER(mix128, float4, ((lane & 3) << 3 | lane >> 2) + warp * 32)
GATHER(mix64, float2, ((lane & 1) << 4 | lane >> 1) + warp * 32)

#define SCATTER(name, T, INDEX)                                                 \
    KERNEL(name) {                                                              \
        __shared__ T s[256];                                                    \
        unsigned lane = LANE, warp = WARP;                                      \
        (void)lane; (void)warp;                                                 \
        s[INDEX] = reinterpret_cast<const T*>(in)[ME];                          \
        __syncthreads();                                                        \
        reinterpret_cast<T*>(out)[ME] = s[threadIdx.x];                         \
    }
SCATTER(put_mix128, float4, ((lane & 3) << 3 | lane >> 2) + warp * 32)
SCATTER(put_mix64, float2, ((lane & 1) << 4 | lane >> 1) + warp * 32)
SCATTER(put_reverse128, float4, 255 - threadIdx.x)
SCATTER(put_stripes128, float4, (lane * 8 + lane / 4) % 32 + warp * 32)
SCATTER(put_stripes64, float2, (lane * 16 + lane / 2) % 32 + warp * 32)

// ---- part of a warp ----
KERNEL(half_warp_shared128) {
    __shared__ float4 s[256];
    s[threadIdx.x] = reinterpret_cast<const float4*>(in)[ME];
    __syncthreads();
    if (LANE < 16) reinterpret_cast<float4*>(out)[ME] = s[threadIdx.x ^ 3];
}
KERNEL(odd_lanes_shared128) {
    __shared__ float4 s[256];
    s[threadIdx.x] = reinterpret_cast<const float4*>(in)[ME];
    __syncthreads();
    if (LANE & 1) reinterpret_cast<float4*>(out)[ME] = s[threadIdx.x ^ 2];
}
KERNEL(odd_lanes_shared64) {
    __shared__ float2 s[256];
    s[threadIdx.x] = reinterpret_cast<const float2*>(in)[ME];
    __syncthreads();
    if (LANE & 1) reinterpret_cast<float2*>(out)[ME] = s[threadIdx.x ^ 2];
}
KERNEL(sparse_lanes_shared64) {
    __shared__ float2 s[1024];
    s[LANE * 32 + WARP] = reinterpret_cast<const float2*>(in)[ME];
    __syncthreads();
    if (LANE % 8 == 3) reinterpret_cast<float2*>(out)[ME] = s[LANE * 32 + WARP];
}
KERNEL(warps_off) {
    __shared__ float s[256];
    s[threadIdx.x] = in[ME];
    __syncthreads();
    if (in[ME] > 2.0f + WARP % 2 * 1e9f) out[ME] = s[threadIdx.x ^ 1];
}

// ---- transposes ----
#define TRANSPOSE(name, PITCH)                                                  \
    KERNEL(name) {                                                              \
        __shared__ float t[32][PITCH];                                          \
        for (int r = WARP; r < 32; r += 8) t[r][LANE] = in[blockIdx.x * 1024 + r * 32 + LANE]; \
        __syncthreads();                                                        \
        for (int r = WARP; r < 32; r += 8) out[blockIdx.x * 1024 + r * 32 + LANE] = t[LANE][r]; \
    }
TRANSPOSE(transpose_padded, 33)
TRANSPOSE(transpose_plain, 32)

// ---- global memory ----
#define GLOBAL_LOAD(name, T, INDEX) \
    KERNEL(name) { unsigned me = ME; reinterpret_cast<T*>(out)[me] = reinterpret_cast<const T*>(in)[INDEX]; }
GLOBAL_LOAD(load32, float, me)
GLOBAL_LOAD(load64, float2, me)
GLOBAL_LOAD(load128, float4, me)
GLOBAL_LOAD(load16, unsigned short, me)
GLOBAL_LOAD(load8, unsigned char, me)
GLOBAL_LOAD(load32_stride2, float, me * 2)
GLOBAL_LOAD(load32_stride8, float, me * 8)
GLOBAL_LOAD(load32_stride32, float, me * 32)
GLOBAL_LOAD(load32_misaligned, float, me + 1)
GLOBAL_LOAD(load64_misaligned, float2, me + 1)
GLOBAL_LOAD(load128_misaligned, float4, me + 1)
GLOBAL_LOAD(load32_reverse, float, 1023 - me)
GLOBAL_LOAD(load32_broadcast, float, me / 32)
GLOBAL_LOAD(load128_broadcast, float4, me / 32)
GLOBAL_LOAD(load128_stride2, float4, me * 2)
GLOBAL_LOAD(load64_stride4, float2, me * 4)
GLOBAL_LOAD(load32_shuffled, float, (me * 13) % 32 + me / 32 * 32)
GLOBAL_LOAD(load128_quads, float4, me / 4)
GLOBAL_LOAD(load32_far, float, (me * 4099) % 100000)
#define GLOBAL_STORE(name, T, INDEX) \
    KERNEL(name) { unsigned me = ME; reinterpret_cast<T*>(out)[INDEX] = reinterpret_cast<const T*>(in)[me]; }
GLOBAL_STORE(store32_stride2, float, me * 2)
GLOBAL_STORE(store32_stride8, float, me * 8)
GLOBAL_STORE(store32_stride32, float, me * 32)
GLOBAL_STORE(store32_misaligned, float, me + 1)
GLOBAL_STORE(store64_misaligned, float2, me + 1)
GLOBAL_STORE(store128_misaligned, float4, me + 1)
GLOBAL_STORE(store128_stride2, float4, me * 2)
GLOBAL_STORE(store32_reverse, float, 1023 - me)
KERNEL(half_warp_global) { if (LANE < 16) out[ME] = in[ME]; }
KERNEL(odd_lanes_global) { if (LANE & 1) out[ME] = in[ME]; }
KERNEL(predicated_off) { float x = in[ME]; if (x > 1e30f) out[ME] = in[ME + 4096]; }

// ---- ldmatrix, stmatrix ----
template <int COUNT, bool TRANSPOSE>
__device__ void ldmatrix(uint32_t (&r)[4], const void* p) {
    unsigned a = (unsigned)__cvta_generic_to_shared(p);
    if constexpr (COUNT == 4 && !TRANSPOSE)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
    else if constexpr (COUNT == 4)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
    else if constexpr (COUNT == 2)
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(a));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(a));
}
// Rows of 64 halves; which 16 bytes of its row a lane asks for is the rule.
#define MATRIX(name, COUNT, TRANSPOSE, PITCH, COLUMN)                           \
    KERNEL(name) {                                                              \
        __shared__ __align__(16) half s[8 * 32 * PITCH / 8];                    \
        for (int i = threadIdx.x; i < 32 * PITCH; i += 256) s[i] = __float2half(in[i]); \
        __syncthreads();                                                        \
        unsigned lane = LANE, warp = WARP;                                      \
        (void)warp;                                                             \
        uint32_t r[4] = {};                                                     \
        ldmatrix<COUNT, TRANSPOSE>(r, s + lane * PITCH + (COLUMN) * 8);         \
        reinterpret_cast<uint32_t*>(out)[ME] = r[0] ^ r[1] ^ r[2] ^ r[3];       \
    }
MATRIX(ldmatrix4_plain, 4, false, 64, warp)
MATRIX(ldmatrix4_swizzled, 4, false, 64, (warp ^ lane) % 8)
MATRIX(ldmatrix4_padded, 4, false, 72, warp)
MATRIX(ldmatrix4_trans, 4, true, 72, warp)
MATRIX(ldmatrix2_plain, 2, false, 64, warp)
MATRIX(ldmatrix2_padded, 2, false, 72, warp)
MATRIX(ldmatrix1_plain, 1, false, 64, warp)
MATRIX(ldmatrix1_padded, 1, false, 72, warp)
KERNEL(stmatrix_plain) {
    __shared__ __align__(16) half s[32 * 64];
    unsigned a = (unsigned)__cvta_generic_to_shared(s + LANE * 64);
    uint32_t r = __float_as_uint(in[ME]);
    if (WARP == 0) asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%1,%1,%1};" :: "r"(a), "r"(r));
    __syncthreads();
    if (WARP == 0) out[ME] = reinterpret_cast<float*>(s)[LANE * 32];
}

// ---- cp.async ----
#define COPY(name, T, STRIDE)                                                   \
    KERNEL(name) {                                                              \
        __shared__ T s[1024];                                                   \
        T* place = s + (LANE * STRIDE + WARP) % 1024;                           \
        __pipeline_memcpy_async(place, reinterpret_cast<const T*>(in) + ME, sizeof(T)); \
        __pipeline_commit();                                                    \
        __pipeline_wait_prior(0);                                               \
        __syncthreads();                                                        \
        reinterpret_cast<T*>(out)[ME] = *place;                                 \
    }
COPY(copy4, float, 1)
COPY(copy4_8, float, 8)
COPY(copy8, float2, 1)
COPY(copy8_8, float2, 8)
COPY(copy16, float4, 1)
COPY(copy16_8, float4, 8)
COPY(copy16_9, float4, 9)
KERNEL(copy16_gathered) {
    __shared__ float4 s[256];
    __pipeline_memcpy_async(s + threadIdx.x, reinterpret_cast<const float4*>(in) + ME * 3, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    reinterpret_cast<float4*>(out)[ME] = s[threadIdx.x ^ 1];
}

// ---- atomics, exchanges, barriers ----
KERNEL(atomic_shared) {
    __shared__ int s[32];
    if (threadIdx.x < 32) s[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&s[threadIdx.x % 8], (int)in[ME]);
    __syncthreads();
    if (threadIdx.x < 32) reinterpret_cast<int*>(out)[ME] = s[threadIdx.x];
}
KERNEL(atomic_global) { atomicAdd(out + LANE, in[ME]); }
KERNEL(atomic_global_one) { atomicAdd(reinterpret_cast<int*>(out), (int)in[ME]); }
KERNEL(barriers) {
    __shared__ float s[256];
    float x = in[ME];
    for (int i = 0; i < 10; i++) {
        s[threadIdx.x] = x;
        __syncthreads();
        x += s[(threadIdx.x + 32) % 256];
        __syncthreads();
    }
    out[ME] = x;
}
KERNEL(divergent) {
    float x = in[ME];
    if (LANE % 2) { for (int i = 0; i < LANE; i++) x = x * 1.5f + in[i]; } else { x = sqrtf(x); }
    out[ME] = x;
}
// mma.sync.m16n8k16, f32 sums.
KERNEL(mma) {
    uint32_t a = __float_as_uint(in[ME]) & 0x3fff3fff, b = __float_as_uint(in[ME + 64]) & 0x3fff3fff;
    float d[4] = {};
    for (int i = 0; i < 8; i++)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a), "r"(b));
    out[ME] = d[0] + d[1] + d[2] + d[3];
}

// ---- which halves and quarters of a wide access go together: lanes that are off ----
#define SPARSE(name, T, LANES, INDEX)                                           \
    KERNEL(name) {                                                              \
        __shared__ T s[256];                                                    \
        s[threadIdx.x] = reinterpret_cast<const T*>(in)[ME];                    \
        __syncthreads();                                                        \
        unsigned lane = LANE, warp = WARP;                                      \
        (void)lane; (void)warp;                                                 \
        if (LANES) reinterpret_cast<T*>(out)[ME] = s[INDEX];                    \
    }
SPARSE(odd_packed64, float2, lane & 1, lane / 2 + warp * 16)
SPARSE(odd_packed128, float4, lane & 1, lane / 2 + warp * 16)
SPARSE(second_pairs64, float2, lane & 2, lane / 4 * 2 + lane % 2 + warp * 16)
SPARSE(second_pairs128, float4, lane & 2, lane / 4 * 2 + lane % 2 + warp * 16)
SPARSE(second_quads64, float2, lane & 4, lane / 8 * 4 + lane % 4 + warp * 16)
SPARSE(second_quads128, float4, lane & 4, lane / 8 * 4 + lane % 4 + warp * 16)
SPARSE(low_half64, float2, lane < 16, lane + warp * 16)
SPARSE(one_lane128, float4, lane == 7, lane + warp * 8)
SPARSE(two_lanes128, float4, lane == 7 || lane == 15, lane + warp * 8)
SPARSE(three_of_four64, float2, lane % 4 != 3, lane / 2 + warp * 16)
GATHER(alternate64, float2, (lane & ~2u) / 2 + warp * 16)
GATHER(alternate128, float4, (lane & ~2u) / 2 + warp * 16)
GATHER(mixed_pairs64, float2, (lane < 16 ? lane / 2 : lane % 2 + (lane - 16) / 4 * 2 + 8) + warp * 8)
GATHER(mixed_pairs128, float4, (lane % 16 < 8 ? lane / 2 : lane % 2 + lane / 4 * 2) + warp * 8)
SCATTER(put_pairs64, float2, threadIdx.x / 2)
SCATTER(put_pairs128, float4, threadIdx.x / 2)
SCATTER(put_broadcast64, float2, warp)
SCATTER(put_broadcast128, float4, warp)
#define PUT_SPARSE(name, T, LANES, INDEX)                                       \
    KERNEL(name) {                                                              \
        __shared__ T s[256];                                                    \
        unsigned lane = LANE, warp = WARP;                                      \
        (void)lane; (void)warp;                                                 \
        T x = reinterpret_cast<const T*>(in)[ME];                               \
        if (LANES) s[INDEX] = x;                                                \
        __syncthreads();                                                        \
        reinterpret_cast<T*>(out)[ME] = s[threadIdx.x / 2];                     \
    }
PUT_SPARSE(put_odd_packed64, float2, lane & 1, lane / 2 + warp * 16)
PUT_SPARSE(put_odd_packed128, float4, lane & 1, lane / 2 + warp * 16)
PUT_SPARSE(put_second_pairs64, float2, lane & 2, lane / 4 * 2 + lane % 2 + warp * 16)

// ---- what ptxas or the launch may count otherwise than the PTX says ----
// Fragments: plain strides of every layout, and a stride of 0, of which ptxas keeps one of equal loads.
#define FRAGMENT(name, M, N, LAYOUT, STRIDE)                                    \
    KERNEL(name) {                                                              \
        __shared__ __align__(32) float s[32 * 40];                              \
        for (int i = threadIdx.x; i < 32 * 40; i += 256) s[i] = in[i];          \
        __syncthreads();                                                        \
        nvcuda::wmma::fragment<nvcuda::wmma::accumulator, M, N, 16, float> f;   \
        nvcuda::wmma::load_matrix_sync(f, s, STRIDE, nvcuda::wmma::LAYOUT);     \
        float sum = 0;                                                          \
        for (int i = 0; i < f.num_elements; i++) sum += f.x[i] * (i + 1);       \
        out[ME] = sum;                                                          \
    }
FRAGMENT(fragment16_row, 16, 16, mem_row_major, 40)
FRAGMENT(fragment16_col, 16, 16, mem_col_major, 40)
FRAGMENT(fragment8_row, 8, 32, mem_row_major, 40)
FRAGMENT(fragment8_col, 8, 32, mem_col_major, 40)
FRAGMENT(fragment32_row, 32, 8, mem_row_major, 40)
FRAGMENT(fragment32_col, 32, 8, mem_col_major, 40)
FRAGMENT(fragment16_row_0, 16, 16, mem_row_major, 0)
FRAGMENT(fragment16_col_0, 16, 16, mem_col_major, 0)
FRAGMENT(fragment8_row_0, 8, 32, mem_row_major, 0)
FRAGMENT(fragment8_col_0, 8, 32, mem_col_major, 0)
FRAGMENT(fragment32_row_0, 32, 8, mem_row_major, 0)
FRAGMENT(fragment32_col_0, 32, 8, mem_col_major, 0)
FRAGMENT(fragment8_col_unseen_0, 8, 32, mem_col_major, in[0] > 1e30f ? 40u : 0u)

#define PUT_FRAGMENT(name, M, N, LAYOUT, STRIDE)                                \
    KERNEL(name) {                                                              \
        __shared__ __align__(32) float s[32 * 40];                              \
        nvcuda::wmma::fragment<nvcuda::wmma::accumulator, M, N, 16, float> f;   \
        for (int i = 0; i < f.num_elements; i++) f.x[i] = in[LANE * 8 + i];     \
        if (WARP == 0) nvcuda::wmma::store_matrix_sync(s, f, STRIDE, nvcuda::wmma::LAYOUT); \
        __syncthreads();                                                        \
        if (WARP == 0) out[ME] = s[LANE % M * (nvcuda::wmma::LAYOUT == nvcuda::wmma::mem_row_major ? STRIDE : 1)]; \
    }
PUT_FRAGMENT(put_fragment16_row, 16, 16, mem_row_major, 40)
PUT_FRAGMENT(put_fragment16_col, 16, 16, mem_col_major, 40)
PUT_FRAGMENT(put_fragment8_row, 8, 32, mem_row_major, 40)
PUT_FRAGMENT(put_fragment32_col, 32, 8, mem_col_major, 40)

// A times B of 16 x 16, with the pitch of their rows in halves.
#define PRODUCT(name, A, B, PITCH)                                              \
    KERNEL(name) {                                                              \
        __shared__ __align__(32) half s[16 * PITCH];                            \
        for (int i = threadIdx.x; i < 16 * PITCH; i += 256) s[i] = __float2half(in[i]); \
        __syncthreads();                                                        \
        nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::A> a; \
        nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::B> b; \
        nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> c; \
        nvcuda::wmma::fill_fragment(c, 0.0f);                                   \
        nvcuda::wmma::load_matrix_sync(a, s, PITCH);                            \
        nvcuda::wmma::load_matrix_sync(b, s, PITCH);                            \
        nvcuda::wmma::mma_sync(c, a, b, c);                                     \
        float sum = 0;                                                          \
        for (int i = 0; i < c.num_elements; i++) sum += c.x[i];                 \
        out[ME] = sum;                                                          \
    }
PRODUCT(product_row_col, row_major, col_major, 16)
PRODUCT(product_row_row, row_major, row_major, 24)
PRODUCT(product_col_row, col_major, row_major, 64)
PRODUCT(product_col_col, col_major, col_major, 72)

// Copies that fill with zeros, for some lanes and for whole warps, and to and from elsewhere in a line.
#define FILLED_COPY(name, FORM, BYTES, TO, FROM, READ)                          \
    KERNEL(name) {                                                              \
        __shared__ __align__(128) float4 s[512];                                \
        unsigned to = (unsigned)__cvta_generic_to_shared(reinterpret_cast<char*>(s) + (TO) * BYTES); \
        const char* from = reinterpret_cast<const char*>(in) + (FROM) * BYTES;  \
        int size = (READ) ? BYTES : 0;                                          \
        asm volatile(FORM " [%0], [%1], %2, %3;" :: "r"(to), "l"(from), "n"(BYTES), "r"(size) : "memory"); \
        __pipeline_commit();                                                    \
        __pipeline_wait_prior(0);                                               \
        __syncthreads();                                                        \
        out[ME] = reinterpret_cast<float*>(s)[threadIdx.x];                     \
    }
#define CG "cp.async.cg.shared.global"
#define CA "cp.async.ca.shared.global"
FILLED_COPY(fill16_all, CG, 16, threadIdx.x, ME, true)
FILLED_COPY(fill16_lanes, CG, 16, threadIdx.x, ME, LANE < 20)
FILLED_COPY(fill16_warps, CG, 16, threadIdx.x, ME, WARP < 3)
FILLED_COPY(fill16_none, CG, 16, threadIdx.x, ME, ME > 5000)
FILLED_COPY(fill4_lanes, CA, 4, threadIdx.x, ME, LANE % 3)
FILLED_COPY(fill8_warps, CA, 8, threadIdx.x, ME, WARP < 3)
FILLED_COPY(copy16_through, CA, 16, threadIdx.x, ME, true)
FILLED_COPY(copy16_by_16, CG, 16, threadIdx.x + 1, ME, true)
FILLED_COPY(copy16_by_32, CG, 16, threadIdx.x + 2, ME, true)
FILLED_COPY(copy16_by_64, CG, 16, threadIdx.x + 4, ME, true)
FILLED_COPY(copy16_from_16, CG, 16, threadIdx.x, ME + 1, true)
FILLED_COPY(copy16_swizzled, CG, 16, threadIdx.x ^ (threadIdx.x / 8 % 8), ME, true)
FILLED_COPY(copy16_swapped, CG, 16, threadIdx.x ^ 1, ME, true)
FILLED_COPY(copy16_pairs, CG, 16, threadIdx.x, ME / 2 * 4 + ME % 2, true)
FILLED_COPY(copy16_rows, CG, 16, threadIdx.x / 4 * 5 + threadIdx.x % 4, ME / 4 * 16 + ME % 4, true)
FILLED_COPY(copy16_halves, CG, 16, threadIdx.x, ME * 2, true)

// Accesses side by side, which ptxas joins where it sees that the whole is aligned, and in a loop.
KERNEL(beside_loads) {
    __shared__ __align__(16) unsigned s[1024];
    for (int i = threadIdx.x; i < 1024; i += 256) s[i] = in[i];
    __syncthreads();
    unsigned a, b, c, d, at = (unsigned)__cvta_generic_to_shared(s + threadIdx.x * 4);
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(a) : "r"(at));
    asm volatile("ld.shared.u32 %0, [%1+4];" : "=r"(b) : "r"(at));
    asm volatile("ld.shared.u32 %0, [%1+8];" : "=r"(c) : "r"(at));
    asm volatile("ld.shared.u32 %0, [%1+12];" : "=r"(d) : "r"(at));
    reinterpret_cast<unsigned*>(out)[ME] = a ^ b * 3 ^ c * 5 ^ d * 7;
}
KERNEL(same_loads) {
    __shared__ unsigned s[256];
    s[threadIdx.x] = in[ME];
    __syncthreads();
    unsigned a, b, at = (unsigned)__cvta_generic_to_shared(s + threadIdx.x);
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(a) : "r"(at));
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(b) : "r"(at));
    reinterpret_cast<unsigned*>(out)[ME] = a * b;
}
KERNEL(same_global_loads) {
    float a, b;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(a) : "l"(in + ME));
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(b) : "l"(in + ME));
    out[ME] = a * b;
}
KERNEL(beside_stores) {
    __shared__ __align__(16) unsigned s[1024];
    unsigned at = (unsigned)__cvta_generic_to_shared(s + threadIdx.x * 4), x = in[ME];
    asm volatile("st.shared.u32 [%0], %1;\n st.shared.u32 [%0+4], %2;\n st.shared.u32 [%0+8], %1;\n st.shared.u32 [%0+12], %2;" :: "r"(at), "r"(x), "r"(x + 1) : "memory");
    __syncthreads();
    reinterpret_cast<unsigned*>(out)[ME] = s[(threadIdx.x * 5 + 3) % 1024];
}
KERNEL(apart_stores) {
    __shared__ __align__(16) unsigned s[2048];
    unsigned at = (unsigned)__cvta_generic_to_shared(s + threadIdx.x * 8), x = in[ME];
    asm volatile("st.shared.u32 [%0], %1;\n st.shared.u32 [%0+8], %2;\n st.shared.u32 [%0+16], %1;\n st.shared.u32 [%0+24], %2;" :: "r"(at), "r"(x), "r"(x + 1) : "memory");
    __syncthreads();
    reinterpret_cast<unsigned*>(out)[ME] = s[(threadIdx.x * 8 + 8) % 2048];
}
KERNEL(beside_in_a_loop) {
    __shared__ __align__(16) float s[4096];
    #pragma unroll 1
    for (int i = 0; i < 16; i++) s[threadIdx.x * 16 + i] = in[ME + i];
    __syncthreads();
    float sum = 0;
    #pragma unroll 1
    for (int i = 0; i < 16; i++) sum = sum * 1.5f + s[threadIdx.x * 16 + i];
    out[ME] = sum;
}

// Lanes that leave a loop in different turns, by a few turns and by many; and branches without a loop.
KERNEL(ragged_by_lane) {
    float x = 0;
    for (int i = 0; i < (int)LANE; i++) x = x * 1.5f + in[i * 64 + LANE];
    out[ME] = x;
}
KERNEL(ragged_tail) {
    float x = 0;
    for (int i = ME; i < 8 * 1024 - 240; i += 1024) x += in[i];
    out[ME] = x;
}
KERNEL(ragged_break) {
    float x = in[ME];
    for (int i = 0; i < 12; i++) { x = x * 0.5f + in[ME + i * 32]; if (x > 0.7f) break; }
    out[ME] = x;
}
KERNEL(ragged_stores) { for (int i = 0; i < (int)LANE % 7; i++) out[ME + i * 1024] = in[i]; }
KERNEL(even_loop) {
    float x = 0;
    for (int i = 0; i < 9 + (int)WARP; i++) x = x * 1.5f + in[ME + i * 1024];
    out[ME] = x;
}
KERNEL(two_sides) {
    float x;
    if (LANE < 11) x = in[ME] * 3; else x = sqrtf(in[ME * 2 + 7]);
    out[ME] = x;
}
KERNEL(early_end) { if (ME % 3 == 0) return; out[ME] = in[ME + 5]; }

// Through addresses whose space only the launch knows, and other ways to ask for memory.
KERNEL(generic_shared) {
    __shared__ float s[256];
    s[threadIdx.x] = in[ME];
    __syncthreads();
    const float* p = in[0] > 1e30f ? in : s;
    out[ME] = p[threadIdx.x ^ 1];
}
KERNEL(generic_global) {
    __shared__ float s[256];
    s[threadIdx.x] = in[ME];
    __syncthreads();
    const float* p = in[0] > 1e30f ? s : in;
    out[ME] = p[threadIdx.x ^ 1];
}
KERNEL(volatile_shared) {
    __shared__ volatile float s[256];
    s[threadIdx.x] = in[ME];
    __syncthreads();
    out[ME] = s[threadIdx.x ^ 1];
}
KERNEL(past_l1) { __stcg(out + ME, __ldcg(in + ME)); }
KERNEL(streamed) { __stcs(out + ME, __ldcs(in + ME)); }
