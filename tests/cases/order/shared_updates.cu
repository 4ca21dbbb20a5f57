// The same in shared memory, where warps of a block add and some of them meet.
//@ launch: {grid: [1], block: [128]}
//@ tensors: {x: {type: f32, shape: [128]}, "y": {role: out, type: f32, shape: [128]}}
//@ args: [{tensor: x}, {tensor: "y"}]
#define BAR(n, threads) asm volatile("bar.sync %0, %1;" :: "r"(n), "r"(threads) : "memory")

// Warp 0 adds, too, and does not wait where warps 1 to 3 do.
extern "C" __global__ void left_out(const float* x, float* y) {
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, 1);  // = added
  if (threadIdx.x >= 32) {
    BAR(1, 96);
    y[threadIdx.x] = x[threadIdx.x] + 0.0f * sum;  // ~ shared_race with added
  } else y[threadIdx.x] = x[threadIdx.x];
}

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

// A histogram by all warps, read by two of them behind a barrier of those two.
extern "C" __global__ void half_histogram(const float* x, float* y) {
  __shared__ unsigned bins[32];
  if (threadIdx.x < 32) bins[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&bins[threadIdx.x * 5 % 32], 1);  // = binned
  y[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x >= 64) {
    BAR(2, 64);
    y[threadIdx.x] += 0.0f * bins[threadIdx.x % 32];  // ~ shared_race with binned
  }
}

// Volatile writes of all warps, and a plain read of one behind a barrier of two.
extern "C" __global__ void volatile_flag(const float* x, float* y) {
  __shared__ int flag;
  y[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x % 32 == 0) *(volatile int*)&flag = threadIdx.x;  // = flagged
  if (threadIdx.x >= 64) {
    BAR(2, 64);
    if (threadIdx.x == 64) y[64] += 0.0f * flag;  // ~ shared_race with flagged
  }
}

// The sum is set back by a plain write.
extern "C" __global__ void set_back(const float* x, float* y) {
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  if (threadIdx.x % 32 == 0) atomicAdd(&sum, 1);  // = before_reset
  y[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x >= 64) {
    BAR(2, 64);
    if (threadIdx.x == 64) sum = 0;  // ~ shared_race with before_reset
  }
}
