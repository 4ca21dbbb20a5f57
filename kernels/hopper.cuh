// Features that only Hopper has (sm_90a): the tensor memory accelerator (TMA), which copies a whole tile on one
// thread's word, mbarriers that count its bytes, and wgmma, in which four warps multiply straight from
// shared memory while they do something else.
//
// A tile here starts at a multiple of 1024 bytes and has rows of 64 halves or of 64 codes. TMA's swizzle of
// 128 bytes puts the 16-byte chunk c of row r at c XOR (r mod 8), the layout of HalfTile<true, 64>; that of 64
// bytes at c XOR (r / 2 mod 4).
#pragma once
#include <cuda.h>
#include "common.cuh"

constexpr int WARPGROUP = 128;  // threads
constexpr int SWIZZLE_ROWS = 8;

// Returns the number of this thread's warpgroup in a way that tells the compiler that a whole warp has
// the same. It runs wgmma one at a time if it cannot tell that a branch is taken by whole warps.
__device__ __forceinline__ int warpgroup() { return __shfl_sync(ALL_LANES, int(threadIdx.x) / WARPGROUP, 0); }

__device__ __forceinline__ unsigned shared_address(const void* pointer)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Moves registers between the warpgroups of a block: one that only starts copies needs few. COUNT is a multiple of 8.
template <int COUNT>
__device__ __forceinline__ void give_up_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(COUNT)); }
template <int COUNT>
__device__ __forceinline__ void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(COUNT)); }

// ---- mbarrier: a phase ends when all have arrived and all announced bytes have come -------------

__device__ __forceinline__ void init_mbarrier(uint64_t& barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to TMA, after the last init and before a barrier of the block.
__device__ __forceinline__ void publish_mbarriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ __forceinline__ void arrive(uint64_t& barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(&barrier)) : "memory");
}

__device__ __forceinline__ void arrive_expecting(uint64_t& barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(shared_address(&barrier)), "r"(bytes) : "memory");
}

// Waits for the end of the phase with this parity: 0 for the first, 1 for the second, 0 for the third.
__device__ __forceinline__ void wait(uint64_t& barrier, unsigned parity)
{
    asm volatile("{ .reg .pred done; \n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; \n"
                 "@!done bra again; }" :: "r"(shared_address(&barrier)), "r"(parity) : "memory");
}

// A ring of DEPTH buffers between the threads that fill and those that use them. Step i uses buffer i % DEPTH.
template <int DEPTH>
struct Ring {
    uint64_t full[DEPTH];
    uint64_t empty[DEPTH];

    __device__ __forceinline__ void init(int fillers, int users)
    {
        for (int i = 0; i < DEPTH; ++i) {
            init_mbarrier(full[i], fillers);
            init_mbarrier(empty[i], users);
        }
    }

    static __device__ __forceinline__ unsigned parity(int step) { return step / DEPTH % 2; }

    // To fill a buffer, wait until it is free, which it is in the first round. Then announce the
    // bytes that TMA brings, or fill the buffer by hand.
    __device__ __forceinline__ void acquire(int step) { wait(empty[step % DEPTH], parity(step) ^ 1); }
    __device__ __forceinline__ uint64_t& announce(int step, int bytes)
    {
        arrive_expecting(full[step % DEPTH], bytes);
        return full[step % DEPTH];
    }
    __device__ __forceinline__ void filled(int step) { arrive(full[step % DEPTH]); }

    // To use a buffer, wait until it is full, and afterwards say that it is not needed any more.
    __device__ __forceinline__ void await(int step) { wait(full[step % DEPTH], parity(step)); }
    __device__ __forceinline__ void release(int step) { arrive(empty[step % DEPTH]); }
};

// ---- TMA ---------------------------------------------------------------------------------------

// Copies one box of a [heads, rows, columns] tensor, from (0, row, head) on. Rows past the end become zeros.
__device__ __forceinline__ void copy_box(unsigned to, const CUtensorMap& map, int row, int head, uint64_t& done)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];"
                 :: "r"(to), "l"(&map), "r"(0), "r"(row), "r"(head), "r"(shared_address(&done)) : "memory");
}

// Makes what this thread stored in shared memory visible to wgmma, before the thread says so at a barrier.
__device__ __forceinline__ void publish_to_wgmma() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- wgmma -------------------------------------------------------------------------------------

// Must come before the first wgmma, and after any change of registers that a wgmma will use.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most PENDING groups are under way.
template <int PENDING>
__device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory"); }

// Keeps the compiler from moving uses of registers across a wait, as it does not know who writes them.
template <int N>
__device__ __forceinline__ void keep_order(float (&registers)[N][4])
{
    #pragma unroll
    for (int n = 0; n < N; ++n)
        #pragma unroll
        for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(registers[n][i]) :: "memory");
}

// Describes a tile to wgmma (PTX ISA, "Matrix Descriptor Format"): its address, the distance of groups
// of eight rows, and the swizzle, which is as wide as a row: 128 or 64 bytes. The field for the
// distance of columns then has no use. The next 32 bytes of all rows are at DESCRIPTOR_NEXT_32_BYTES.
template <int ROW_BYTES>
__device__ __forceinline__ uint64_t describe_tile(unsigned address)
{
    static_assert(ROW_BYTES == 128 || ROW_BYTES == 64, "one of wgmma's swizzles");
    constexpr uint64_t swizzle = ROW_BYTES == 128 ? 1 : 2;
    constexpr uint64_t group_distance = SWIZZLE_ROWS * ROW_BYTES;
    return swizzle << 62 | (group_distance >> 4) << 32 | uint64_t(1) << 16 | (address & 0x3ffff) >> 4;
}
constexpr uint64_t DESCRIPTOR_NEXT_32_BYTES = 32 >> 4;

#define WGMMA_TILE(t) "+f"(t[0]), "+f"(t[1]), "+f"(t[2]), "+f"(t[3])

// Starts C = A B^T, or C += if `add`: 64 rows of A and 64 rows of B, 16 columns of both.
__device__ __forceinline__ void wgmma_qk(float (&c)[8][4], uint64_t a, uint64_t b, bool add)
{
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %34, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31}, "
                 "%32, %33, add, 1, 1, 0, 0; }"
                 : WGMMA_TILE(c[0]), WGMMA_TILE(c[1]), WGMMA_TILE(c[2]), WGMMA_TILE(c[3]), WGMMA_TILE(c[4]),
                   WGMMA_TILE(c[5]), WGMMA_TILE(c[6]), WGMMA_TILE(c[7])
                 : "l"(a), "l"(b), "r"(int(add)));
}

// Starts the product with 128 rows of B.
__device__ __forceinline__ void wgmma_qk(float (&c)[16][4], uint64_t a, uint64_t b, bool add)
{
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, add, 1, 1, 0, 0; }"
                 : WGMMA_TILE(c[0]), WGMMA_TILE(c[1]), WGMMA_TILE(c[2]), WGMMA_TILE(c[3]), WGMMA_TILE(c[4]),
                   WGMMA_TILE(c[5]), WGMMA_TILE(c[6]), WGMMA_TILE(c[7]), WGMMA_TILE(c[8]), WGMMA_TILE(c[9]),
                   WGMMA_TILE(c[10]), WGMMA_TILE(c[11]), WGMMA_TILE(c[12]), WGMMA_TILE(c[13]),
                   WGMMA_TILE(c[14]), WGMMA_TILE(c[15])
                 : "l"(a), "l"(b), "r"(int(add)));
}

// Starts the product on e4m3, with 32 columns of both at a time.
__device__ __forceinline__ void wgmma_qk_e4m3(float (&c)[8][4], uint64_t a, uint64_t b, bool add)
{
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %34, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31}, "
                 "%32, %33, add, 1, 1; }"
                 : WGMMA_TILE(c[0]), WGMMA_TILE(c[1]), WGMMA_TILE(c[2]), WGMMA_TILE(c[3]), WGMMA_TILE(c[4]),
                   WGMMA_TILE(c[5]), WGMMA_TILE(c[6]), WGMMA_TILE(c[7])
                 : "l"(a), "l"(b), "r"(int(add)));
}

__device__ __forceinline__ void wgmma_qk_e4m3(float (&c)[16][4], uint64_t a, uint64_t b, bool add)
{
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, add, 1, 1; }"
                 : WGMMA_TILE(c[0]), WGMMA_TILE(c[1]), WGMMA_TILE(c[2]), WGMMA_TILE(c[3]), WGMMA_TILE(c[4]),
                   WGMMA_TILE(c[5]), WGMMA_TILE(c[6]), WGMMA_TILE(c[7]), WGMMA_TILE(c[8]), WGMMA_TILE(c[9]),
                   WGMMA_TILE(c[10]), WGMMA_TILE(c[11]), WGMMA_TILE(c[12]), WGMMA_TILE(c[13]),
                   WGMMA_TILE(c[14]), WGMMA_TILE(c[15])
                 : "l"(a), "l"(b), "r"(int(add)));
}

// Starts C += A B: A is 64 x 16 in registers, and B is 16 rows of 64 columns.
__device__ __forceinline__ void wgmma_pv(float (&c)[8][4], const uint32_t (&a)[4], uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31}, "
                 "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : WGMMA_TILE(c[0]), WGMMA_TILE(c[1]), WGMMA_TILE(c[2]), WGMMA_TILE(c[3]), WGMMA_TILE(c[4]),
                   WGMMA_TILE(c[5]), WGMMA_TILE(c[6]), WGMMA_TILE(c[7])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#undef WGMMA_TILE
