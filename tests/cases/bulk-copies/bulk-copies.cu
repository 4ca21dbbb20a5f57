// One kernel over 4 tiles of 1024 ints: each comes by a bulk copy, is changed, and goes by another one. Compiled by nvcc for
// sm_90 from what the CUDA C++ Programming Guide shows. Each further kernel is an edit of the first one.
//@ seeds: 1
//@ tensors: {x: {type: i32, shape: [4096], fill: iota}, y: {role: out, type: i32, shape: [4096]}}
//@ args: [{tensor: x}, {tensor: "y"}]
//@ launch: {grid: [4], block: [128]}
//@ reference: {user: {source: bulk-copies.cpp, function: reference, args: [{tensor: x}, {tensor: "y"}, {i32: 4096}]}}
#include <cuda/barrier>
#include <cuda/ptx>
namespace ptx = cuda::ptx;
#pragma nv_diag_suppress static_var_with_dynamic_init

// The steps of a kernel, each of one line. LEAVE waits until as many copies as it names are under way.
#define BEGIN                                               \
    __shared__ alignas(16) int tile[1024];                  \
    __shared__ cuda::barrier<cuda::thread_scope_block> bar; \
    if (threadIdx.x == 0) {                                 \
        init(&bar, blockDim.x);                             \
        ptx::fence_proxy_async(ptx::space_shared);          \
    }                                                       \
    __syncthreads();
#define FETCH(from) if (threadIdx.x == 0) cuda::memcpy_async(tile, from, cuda::aligned_size_t<16>(sizeof(tile)), bar);
#define ARRIVE auto token = bar.arrive();
#define WAIT bar.wait(std::move(token));
#define CHANGE for (int i = threadIdx.x; i < 1024; i += blockDim.x) tile[i] += 1;
#define FENCE ptx::fence_proxy_async(ptx::space_shared);
#define SEND                                                                                                 \
    if (threadIdx.x == 0) {                                                                                  \
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y + 1024 * blockIdx.x, tile, sizeof(tile)); \
        ptx::cp_async_bulk_commit_group();                                                                   \
    }
#define LEAVE(count) if (threadIdx.x == 0) ptx::cp_async_bulk_wait_group_read(ptx::n32_t<count>());

extern "C" __global__ void tiles(const int* x, int* y) {
    BEGIN
    FETCH(x + 1024 * blockIdx.x)
    ARRIVE
    WAIT
    CHANGE
    FENCE
    __syncthreads();
    SEND
    LEAVE(0)
    __syncthreads();
    tile[threadIdx.x] = 0;
}

// Nobody waits for the copy.
extern "C" __global__ void reads_the_tile_while_it_comes(const int* x, int* y) {
    BEGIN
    FETCH(x + 1024 * blockIdx.x)  // = reads_the_tile_while_it_comes  // ~ async_before_wait
    ARRIVE
    CHANGE  // ~ async_before_wait with reads_the_tile_while_it_comes, shared_race with reads_the_tile_while_it_comes, warp_race with reads_the_tile_while_it_comes
    FENCE
    __syncthreads();
    SEND  // ~ async_before_wait with reads_the_tile_while_it_comes
    LEAVE(0)
    __syncthreads();
    tile[threadIdx.x] = 0;  // ~ async_before_wait with reads_the_tile_while_it_comes
}

// The tile changes while the copy may still read it.
extern "C" __global__ void overwrites_the_tile_while_it_goes(const int* x, int* y) {
    BEGIN
    FETCH(x + 1024 * blockIdx.x)
    ARRIVE
    WAIT
    CHANGE
    FENCE
    __syncthreads();
    SEND  // = overwrites_the_tile_while_it_goes
    __syncthreads();
    tile[threadIdx.x] = 0;  // ~ async_before_wait with overwrites_the_tile_while_it_goes, shared_race with overwrites_the_tile_while_it_goes
}  // ~ async_before_wait with overwrites_the_tile_while_it_goes

// The wait leaves one group under way, and there is only one.
extern "C" __global__ void lets_the_only_group_be_under_way(const int* x, int* y) {
    BEGIN
    FETCH(x + 1024 * blockIdx.x)
    ARRIVE
    WAIT
    CHANGE
    FENCE
    __syncthreads();
    SEND  // = lets_the_only_group_be_under_way
    LEAVE(1)
    __syncthreads();
    tile[threadIdx.x] = 0;  // ~ async_before_wait with lets_the_only_group_be_under_way, shared_race with lets_the_only_group_be_under_way
}  // ~ async_before_wait with lets_the_only_group_be_under_way

// No fence orders the values before the copy.
extern "C" __global__ void never_shows_the_new_values_to_the_copy(const int* x, int* y) {
    BEGIN
    FETCH(x + 1024 * blockIdx.x)
    ARRIVE
    WAIT
    CHANGE  // = never_shows_the_new_values_to_the_copy
    __syncthreads();
    SEND  // ~ shared_race with never_shows_the_new_values_to_the_copy
    LEAVE(0)
    __syncthreads();
    tile[threadIdx.x] = 0;
}

// The last tile is behind the end.
extern "C" __global__ void reads_one_tile_too_far(const int* x, int* y) {
    BEGIN
    FETCH(x + 1024 * (blockIdx.x + 1))  // ~ kernel-faulted
    ARRIVE
    WAIT
    CHANGE
    FENCE
    __syncthreads();
    SEND
    LEAVE(0)
    __syncthreads();
    tile[threadIdx.x] = 0;
}

// Ints 1 to 1024 begin at no multiple of 16 bytes.
extern "C" __global__ void copies_from_a_misaligned_place(const int* x, int* y) {
    BEGIN
    FETCH(x + 1 + 1024 * blockIdx.x)  // ~ kernel-faulted
    ARRIVE
    WAIT
    CHANGE
    FENCE
    __syncthreads();
    SEND
    LEAVE(0)
    __syncthreads();
    tile[threadIdx.x] = 0;
}

// The barrier waits for 64 bytes that nobody copies.
extern "C" __global__ void announces_more_bytes_than_come(const int* x, int* y) {
    BEGIN
    FETCH(x + 1024 * blockIdx.x)
    if (threadIdx.x == 0) cuda::device::barrier_expect_tx(bar, 64);
    ARRIVE
    WAIT  // ~ kernel-faulted
    CHANGE
    FENCE
    __syncthreads();
    SEND
    LEAVE(0)
    __syncthreads();
    tile[threadIdx.x] = 0;
}

// A form of a reduction that is not built: named, and no pass.
extern "C" __global__ void adds_to_a_neighbour(const int* x, int* y) {
    BEGIN
    FETCH(x + 1024 * blockIdx.x)
    asm volatile("multimem.red.release.gpu.global.add.u32 [%0], 1;" ::"l"(y));  // ~ note unsupported
    ARRIVE
    WAIT
    CHANGE
    FENCE
    __syncthreads();
    SEND
    LEAVE(0)
    __syncthreads();
    tile[threadIdx.x] = 0;
}
