// Honest code of libraries, which computes addresses in shared memory in many ways: storage of CUB next to an array, two
// storages that share a union, pipelines and barriers of libcu++, tiles of cooperative groups, fragments of wmma.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cub/cub.cuh>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <mma.h>
namespace cg = cooperative_groups;

extern "C" __global__ void cub_blocks(const float* x, float* y, int n) {
  using Sort = cub::BlockRadixSort<unsigned, 64, 2, unsigned>;
  using Scan = cub::BlockScan<int, 64>;
  using Sum = cub::BlockReduce<float, 64>;
  __shared__ union {
    Sort::TempStorage sort;
    Scan::TempStorage scan;
  } both;
  __shared__ Sum::TempStorage sum;
  __shared__ float own[64], total;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned keys[2] = {2 * (63 - threadIdx.x), 2 * (63 - threadIdx.x) + 1};
  unsigned values[2] = {threadIdx.x, threadIdx.x};
  Sort(both.sort).Sort(keys, values);
  __syncthreads();
  int before;
  Scan(both.scan).ExclusiveSum(1, before);
  own[63 - values[0]] = x[i - threadIdx.x + before];
  const float all = Sum(sum).Sum(0.0f * x[i]);
  if (threadIdx.x == 0) total = all;
  __syncthreads();
  y[i] = own[threadIdx.x] + total;
}

extern "C" __global__ void pipelined(const float* x, float* y, int n) {
  __shared__ alignas(16) float stage[2][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  const int first = blockIdx.x * blockDim.x;
  for (int turn = 0; turn < 2; ++turn) {
    pipe.producer_acquire();
    cuda::memcpy_async(block, stage[turn], x + first, cuda::aligned_size_t<16>(256), pipe);
    pipe.producer_commit();
  }
  float last = 0;
  for (int turn = 0; turn < 2; ++turn) {
    pipe.consumer_wait();
    last = stage[turn][threadIdx.x];
    pipe.consumer_release();
  }
  y[first + threadIdx.x] = last;
}

extern "C" __global__ void tiles(const float* x, float* y, int n) {
  __shared__ float of_warps[2];
  __shared__ cuda::barrier<cuda::thread_scope_block> met;
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<32>(block);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) init(&met, 64);
  block.sync();
  const float sum = cg::reduce(tile, 0.0f * x[i], cg::plus<float>());
  if (tile.thread_rank() == 0) of_warps[tile.meta_group_rank()] = sum;
  met.arrive_and_wait();
  y[i] = x[i] + of_warps[tile.meta_group_rank() ^ 1];
}

extern "C" __global__ void fragments(const float* x, float* y, int n) {
  __shared__ half a[16][24], b[16][24];
  __shared__ float c[16 * 16];
  using namespace nvcuda::wmma;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = threadIdx.x; k < 256; k += 64) {
    a[k / 16][k % 16] = __float2half(0);
    b[k / 16][k % 16] = __float2half(1);
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    fragment<matrix_a, 16, 16, 16, half, row_major> fa;
    fragment<matrix_b, 16, 16, 16, half, col_major> fb;
    fragment<accumulator, 16, 16, 16, float> fc;
    fill_fragment(fc, 0.0f);
    load_matrix_sync(fa, &a[0][0], 24);
    load_matrix_sync(fb, &b[0][0], 24);
    mma_sync(fc, fa, fb, fc);
    store_matrix_sync(c, fc, 16, mem_row_major);
  }
  __syncthreads();
  y[i] = x[i] + c[threadIdx.x];
}
