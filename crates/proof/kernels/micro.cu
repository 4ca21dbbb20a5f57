// One kind of memory access per kernel, so that a hardware counter has one cause. Every kernel takes
// (const float* in, float* out) and runs as 4 blocks of 256 threads; `in` and `out` hold 2^20 floats.
#include <cuda_fp16.h>
#include <cuda_pipeline_primitives.h>
#include <cstdint>

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
