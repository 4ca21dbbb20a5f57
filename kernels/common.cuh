// Tools for all kernels here: sizes of a warp, asynchronous copies, and reductions of warps and blocks.
#pragma once
#include <cuda_fp16.h>
#include <cstdint>

#ifndef HEAD_SIZE
#define HEAD_SIZE 64     // elements of one query, key or value: 64, or 128 where a kernel says that it can
#endif

constexpr int WARP_SIZE = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

// The widest access that one thread can make, which is the unit of every tile copy below.
constexpr int CHUNK_BYTES = 16;

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

// ---- cp.async: global -> shared without a stop in registers (sm_80 and later) ------------------

// Starts the copy of one 16-byte chunk between 16-byte aligned addresses. If `valid` is false,
// nothing is read and the chunk is filled with zeros, so a ragged last tile needs no second path.
__device__ __forceinline__ void cp_async_chunk(void* shared, const void* global, bool valid)
{
    const unsigned destination = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    const int bytes_read = valid ? CHUNK_BYTES : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(destination), "l"(global), "r"(bytes_read) : "memory");
}

// Starts the copy of a chunk of BYTES = 4, 8 or 16.
template <int BYTES>
__device__ __forceinline__ void cp_async_bytes(unsigned shared, const void* global, bool valid)
{
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "what cp.async can copy");
    const int bytes_read = valid ? BYTES : 0;
    if constexpr (BYTES == 16) {  // .cg: not by way of L1
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(shared), "l"(global), "r"(bytes_read) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     :: "r"(shared), "l"(global), "n"(BYTES), "r"(bytes_read) : "memory");
    }
}

// Closes the group of copies that this thread has started since the last commit.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most PENDING groups of *this thread* are under way. Other threads see the data
// only after a barrier.
template <int PENDING>
__device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory"); }

// ---- reductions in a fixed order, hence the same bits on every run ----------------------------

struct Sum {
    static constexpr float identity = 0.0f;
    __device__ float operator()(float a, float b) const { return a + b; }
};

struct Max {
    static constexpr float identity = -INFINITY;
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Every lane gets the reduction over its warp.
template <typename Op>
__device__ __forceinline__ float warp_reduce(float value, Op op)
{
    #pragma unroll
    for (int distance = WARP_SIZE / 2; distance > 0; distance /= 2)
        value = op(value, __shfl_xor_sync(ALL_LANES, value, distance));
    return value;
}

// Returns the reduction over the block of SIZE threads, to every thread. Can be called repeatedly.
template <int SIZE, typename Op>
__device__ __forceinline__ float block_reduce(float value, Op op)
{
    constexpr int WARPS = SIZE / WARP_SIZE;
    static_assert(SIZE % WARP_SIZE == 0 && WARPS <= WARP_SIZE, "whole warps, at most 32 of them");
    __shared__ float of_warp[WARPS];

    value = warp_reduce(value, op);
    if (threadIdx.x % WARP_SIZE == 0) of_warp[threadIdx.x / WARP_SIZE] = value;
    __syncthreads();
    const int lane = threadIdx.x % WARP_SIZE;
    value = warp_reduce(lane < WARPS ? of_warp[lane] : Op::identity, op);
    __syncthreads();  // the next call may overwrite of_warp only when all have read it
    return value;
}
