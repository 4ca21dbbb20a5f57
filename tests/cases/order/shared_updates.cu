// Updates in shared memory, where warps of a block add and those that read have met all of them.
//@ launch: {grid: [1], block: [128]}
//@ tensors: {x: {type: f32, shape: [128]}, "y": {role: out, type: f32, shape: [128]}}
//@ args: [{tensor: x}, {tensor: "y"}]
#define BAR(n, threads) asm volatile("bar.sync %0, %1;" :: "r"(n), "r"(threads) : "memory")

extern "C" __global__ void all_meet(const float* x, float* y) {
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, 1);
  __syncthreads();
  y[threadIdx.x] = x[threadIdx.x] + 0.0f * sum;
}

// Only the warps that wait have added.
extern "C" __global__ void three_add(const float* x, float* y) {
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  if (threadIdx.x >= 32) {
    atomicAdd(&sum, 1);
    BAR(1, 96);
    y[threadIdx.x] = x[threadIdx.x] + 0.0f * sum;
  } else y[threadIdx.x] = x[threadIdx.x];
}

// The last warp by a counter in shared memory, with a fence of the block.
extern "C" __global__ void last_warp(const float* x, float* y) {
  __shared__ int sum, arrived;
  if (threadIdx.x == 0) sum = arrived = 0;
  __syncthreads();
  y[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&sum, threadIdx.x);
    __threadfence_block();
    if (atomicAdd(&arrived, 1) == 3) {
      __threadfence_block();
      y[0] = x[0] + 0.0f * sum;
    }
  }
}
