// Blocks add to words by atomics, and the last one to arrive reads them ("threadFenceReduction", split-K; cccl#10683).
// Attempted: the fence is each thread's own, so that without a barrier thread 0 announces its block before the second warp
// has added. Only the last updater of a word was remembered, and that one is ordered. Stopped: all updaters that nothing
// orders are remembered.
//@ tensors: {x: {type: f32, shape: [256]}, "y": {role: out, type: f32, shape: [256]}, total: {role: scratch, type: f32, shape: [256], fill: zeros}, arrived: {role: scratch, type: u32, shape: [4], fill: zeros}}
//@ args: [{tensor: x}, {tensor: "y"}, {tensor: total}, {tensor: arrived}]

// Each block adds to all 256 sums, and its own quarter of `x` alone is not 0.
__device__ float part(const float* x, int i) { return i / 64 == blockIdx.x ? x[i] : 0.0f; }

extern "C" __global__ void no_barrier(const float* x, float* y, float* total, unsigned* arrived) {
  __shared__ bool last;
  for (int i = threadIdx.x; i < 256; i += 64) atomicAdd(&total[i], part(x, i));  // = added
  __threadfence();
  if (threadIdx.x == 0) last = atomicAdd(arrived, 1) == gridDim.x - 1;  // ~ note not-judged
  __syncthreads();
  if (last) for (int i = threadIdx.x; i < 256; i += 64) y[i] = total[i];  // ~ global_race with added
}

extern "C" __global__ void barrier(const float* x, float* y, float* total, unsigned* arrived) {
  __shared__ bool last;
  for (int i = threadIdx.x; i < 256; i += 64) atomicAdd(&total[i], part(x, i));
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(arrived, 1) == gridDim.x - 1;  // ~ note not-judged
  __syncthreads();
  if (last) for (int i = threadIdx.x; i < 256; i += 64) y[i] = total[i];
}

// The barrier comes before the fence: one thread fences for all.
extern "C" __global__ void one_fence(const float* x, float* y, float* total, unsigned* arrived) {
  __shared__ bool last;
  for (int i = threadIdx.x; i < 256; i += 64) atomicAdd(&total[i], part(x, i));
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(arrived, 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (last) for (int i = threadIdx.x; i < 256; i += 64) y[i] = total[i];
}

// The second half of the block alone adds, and only the first half waits: order of the last updater is no help.
extern "C" __global__ void other_half(const float* x, float* y, float* total, unsigned* arrived) {
  __shared__ bool last;
  if (threadIdx.x >= 32)
    for (int i = threadIdx.x - 32; i < 256; i += 32) atomicAdd(&total[i], part(x, i));  // = second
  __threadfence();
  if (threadIdx.x == 0) last = atomicAdd(arrived, 1) == gridDim.x - 1;
  __syncthreads();
  if (last) for (int i = threadIdx.x; i < 256; i += 64) y[i] = total[i];  // ~ global_race with second
}

// Read through a vector: of four words.
extern "C" __global__ void vectors(const float* x, float* y, float* total, unsigned* arrived) {
  __shared__ bool last;
  for (int i = threadIdx.x; i < 256; i += 64) atomicAdd(&total[i], part(x, i));  // = to_vector
  __threadfence();
  if (threadIdx.x == 0) last = atomicAdd(arrived, 1) == gridDim.x - 1;  // ~ note not-judged
  __syncthreads();
  if (last) ((float4*)y)[threadIdx.x] = ((float4*)total)[threadIdx.x];  // ~ global_race with to_vector
}

// Read byte by byte.
extern "C" __global__ void bytes(const float* x, float* y, float* total, unsigned* arrived) {
  __shared__ bool last;
  for (int i = threadIdx.x; i < 256; i += 64) atomicAdd(&total[i], part(x, i));  // = to_bytes
  __threadfence();
  if (threadIdx.x == 0) last = atomicAdd(arrived, 1) == gridDim.x - 1;  // ~ note not-judged
  __syncthreads();
  if (last) for (int i = threadIdx.x; i < 1024; i += 64) ((char*)y)[i] = ((char*)total)[i];  // ~ global_race with to_bytes
}

// The sums are reset by a plain write, not read.
extern "C" __global__ void reset(const float* x, float* y, float* total, unsigned* arrived) {
  __shared__ bool last;
  const int own = blockIdx.x * 64 + threadIdx.x;
  y[own] = x[own];
  for (int i = threadIdx.x; i < 256; i += 64) atomicAdd(&total[i], part(x, i));  // = to_reset
  __threadfence();
  if (threadIdx.x == 0) last = atomicAdd(arrived, 1) == gridDim.x - 1;  // ~ note not-judged
  __syncthreads();
  if (last) for (int i = threadIdx.x; i < 256; i += 64) total[i] = 0;  // ~ global_race with to_reset
}

extern "C" __global__ void reset_in_order(const float* x, float* y, float* total, unsigned* arrived) {
  __shared__ bool last;
  const int own = blockIdx.x * 64 + threadIdx.x;
  y[own] = x[own];
  for (int i = threadIdx.x; i < 256; i += 64) atomicAdd(&total[i], part(x, i));
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(arrived, 1) == gridDim.x - 1;  // ~ note not-judged
  __syncthreads();
  if (last) for (int i = threadIdx.x; i < 256; i += 64) total[i] = 0;
}

// Maxima of bits, and exchanges: other operations on the same words.
extern "C" __global__ void maxima(const float* x, float* y, float* total, unsigned* arrived) {
  __shared__ bool last;
  for (int i = threadIdx.x; i < 256; i += 64)
    if (i / 64 == blockIdx.x) atomicExch((unsigned*)&total[i], __float_as_uint(x[i]));  // = exchanged
    else atomicOr((unsigned*)&total[i], 0u);  // = joined
  __threadfence();
  if (threadIdx.x == 0) last = atomicAdd(arrived, 1) == gridDim.x - 1;  // ~ note not-judged
  __syncthreads();
  if (last) for (int i = threadIdx.x; i < 256; i += 64) y[i] = total[i];  // ~ global_race with exchanged, global_race with joined
}

// A counter for each quarter: whoever is last of a quarter copies it.
extern "C" __global__ void quarters(const float* x, float* y, float* total, unsigned* arrived) {
  __shared__ unsigned ready;
  for (int i = threadIdx.x; i < 256; i += 64) atomicAdd(&total[i], part(x, i));  // = in_quarters
  __threadfence();
  if (threadIdx.x == 0) ready = 0;
  __syncthreads();
  if (threadIdx.x < 4 && atomicAdd(&arrived[threadIdx.x], 1) == gridDim.x - 1) atomicOr(&ready, 1 << threadIdx.x);  // ~ note not-judged
  __syncthreads();
  for (int q = 0; q < 4; ++q) if (ready >> q & 1) y[q * 64 + threadIdx.x] = total[q * 64 + threadIdx.x];
}

// Warps announce themselves, each with its own fence: nobody waits for another warp, and none needs to.
extern "C" __global__ void warps(const float* x, float* y, float* total, unsigned* arrived) {
  for (int i = threadIdx.x % 32; i < 256; i += 32)
    atomicAdd(&total[i], threadIdx.x < 32 ? part(x, i) : 0.0f);
  __threadfence();
  __syncwarp();
  unsigned before = 0;
  if (threadIdx.x % 32 == 0) before = atomicAdd(arrived, 1);
  before = __shfl_sync(~0u, before, 0);
  __threadfence();
  if (before == 2 * gridDim.x - 1) for (int i = threadIdx.x % 32; i < 256; i += 32) y[i] = total[i];
}

// The same with one announcement too few: the last one of seven may come before the eighth.
extern "C" __global__ void seven_of_eight(const float* x, float* y, float* total, unsigned* arrived) {
  for (int i = threadIdx.x % 32; i < 256; i += 32)
    atomicAdd(&total[i], threadIdx.x < 32 ? part(x, i) : 0.0f);  // = eighth
  __threadfence();
  __syncwarp();
  unsigned before = 0;
  if (threadIdx.x % 32 == 0 && blockIdx.x + threadIdx.x > 0) before = atomicAdd(arrived, 1);
  before = __shfl_sync(~0u, before, 0);
  __threadfence();
  if (before == 2 * gridDim.x - 2) for (int i = threadIdx.x % 32; i < 256; i += 32) y[i] = total[i];  // ~ global_race with eighth
}
