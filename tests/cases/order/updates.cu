// Updates that an update after them hides: of other kinds, scopes and sizes, and what comes after them.
// Attempted: only the last write of a word was remembered, and any two strong ones go together. Stopped: those that a
// later one does not come after stay.
//@ tensors: {x: {type: f32, shape: [256]}, "y": {role: out, type: f32, shape: [256]}, total: {role: scratch, type: u32, shape: [256], fill: zeros}, arrived: {role: scratch, type: u32, shape: [4], fill: zeros}}
//@ args: [{tensor: x}, {tensor: "y"}, {tensor: total}, {tensor: arrived}]

#define COPY const int own = blockIdx.x * 64 + threadIdx.x; y[own] = x[own];
__device__ unsigned load(const unsigned* p) { unsigned v; asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p)); return v; }

// Volatile writes by all, one of them announced.
extern "C" __global__ void volatile_writes(const float* x, float* y, unsigned* total, unsigned* arrived) {
  COPY
  if (threadIdx.x == 0) *(volatile unsigned*)total = blockIdx.x + 1;  // = by_volatile
  if (blockIdx.x == 3 && threadIdx.x == 0) { __threadfence(); atomicAdd(arrived, 1); }
  if (blockIdx.x == 0 && threadIdx.x == 32) {
    while (load(arrived) == 0);
    __threadfence();
    total[1] = *total > 0;  // ~ global_race with by_volatile
  }
}

extern "C" __global__ void volatile_writes_of_one(const float* x, float* y, unsigned* total, unsigned* arrived) {
  COPY
  if (threadIdx.x == 0 && blockIdx.x == 3) {
    for (int n = 0; n < 9; ++n) *(volatile unsigned*)total = n;
    __threadfence();
    atomicAdd(arrived, 1);
  }
  if (blockIdx.x == 0 && threadIdx.x == 32) {
    while (load(arrived) == 0);
    __threadfence();
    total[1] = *total;
  }
}

// The same value by all, which is no race among them, and one of them announced.
extern "C" __global__ void same_value(const float* x, float* y, unsigned* total, unsigned* arrived) {
  COPY
  if (threadIdx.x == 0) *total = 1;  // = of_all
  if (blockIdx.x == 3 && threadIdx.x == 0) { __threadfence(); atomicAdd(arrived, 1); }
  if (blockIdx.x == 0 && threadIdx.x == 32) {
    while (load(arrived) == 0);
    __threadfence();
    total[1] = *total;  // ~ global_race with of_all
  }
}

extern "C" __global__ void same_value_announced(const float* x, float* y, unsigned* total, unsigned* arrived) {
  COPY
  if (threadIdx.x == 0) { *total = 1; __threadfence(); atomicAdd(arrived, 1); }
  if (blockIdx.x == 0 && threadIdx.x == 32) {
    while (load(arrived) < 4);
    __threadfence();
    total[1] = *total;
  }
}

// An atomic after a plain write of another block, hidden by a third.
extern "C" __global__ void plain_first(const float* x, float* y, unsigned* total, unsigned* arrived) {
  COPY
  if (threadIdx.x == 0 && blockIdx.x == 0) total[5] = 7;  // = plain
  if (threadIdx.x == 0 && blockIdx.x > 0) atomicAdd(&total[5], 1);  // ~ global_race with plain
}

// Atomics of the block among those of the device.
extern "C" __global__ void block_scope(const float* x, float* y, unsigned* total, unsigned* arrived) {
  COPY
  if (threadIdx.x == 0 && blockIdx.x == 0) atomicAdd_block(&total[3], 1);  // = by_block
  if (threadIdx.x == 0 && blockIdx.x == 2) atomicAdd(&total[3], 1);  // ~ global_race with by_block
}

extern "C" __global__ void block_scope_apart(const float* x, float* y, unsigned* total, unsigned* arrived) {
  COPY
  atomicAdd_block(&total[blockIdx.x], 1);
}

// An atomic of the block is hidden by one of the device by the same thread.
extern "C" __global__ void hidden_scope(const float* x, float* y, unsigned* total, unsigned* arrived) {
  COPY
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    atomicAdd_block(&total[3], 1);  // = of_block
    atomicAdd(&total[3], 1);
  }
  if (threadIdx.x == 0 && blockIdx.x == 3) atomicAdd(&total[3], 1);  // ~ global_race with of_block
}

// 64 bits at once over words that others update by 32.
extern "C" __global__ void wide_over_narrow(const float* x, float* y, unsigned* total, unsigned* arrived) {
  COPY
  if (threadIdx.x == 0 && blockIdx.x < 2) atomicAdd(&total[8 + blockIdx.x], 1);  // = narrow
  if (threadIdx.x == 0 && blockIdx.x == 2) atomicAdd(&total[8], 1);
  if (threadIdx.x == 0 && blockIdx.x == 2) { __threadfence(); atomicAdd(arrived, 1); }
  if (blockIdx.x == 0 && threadIdx.x == 32) {
    while (load(arrived) == 0);
    __threadfence();
    *(unsigned long long*)&total[16] = *(unsigned long long*)&total[8];  // ~ global_race with narrow
  }
}

// Halves and bytes of a word that others update whole.
extern "C" __global__ void halves(const float* x, float* y, unsigned* total, unsigned* arrived) {
  COPY
  if (threadIdx.x == 0 && blockIdx.x < 3) atomicAdd(&total[8], 1);  // = whole
  if (threadIdx.x == 0 && blockIdx.x == 2) { __threadfence(); atomicAdd(arrived, 1); }
  if (blockIdx.x == 3 && threadIdx.x == 32) {
    while (load(arrived) == 0);
    __threadfence();
    ((unsigned short*)&total[16])[0] = ((unsigned short*)&total[8])[1];  // ~ global_race with whole
  }
}

// A loop of atomics by one warp, then its own plain read.
extern "C" __global__ void own_updates(const float* x, float* y, unsigned* total, unsigned* arrived) {
  COPY
  for (int n = 0; n < 20; ++n) atomicAdd(&total[own], n);
  total[own] = total[own] + 1;
}

// Lanes of one warp update a word, and one of them reads it without meeting the others.
extern "C" __global__ void lanes(const float* x, float* y, unsigned* total, unsigned* arrived) {
  COPY
  if (blockIdx.x == 0 && threadIdx.x < 32) {
    atomicAdd(&total[9], 1);
    __syncwarp();
    if (threadIdx.x == 0) total[10] = total[9];
  }
}

// A histogram in global memory, which the last block adds up.
extern "C" __global__ void histogram(const float* x, float* y, unsigned* total, unsigned* arrived) {
  COPY
  __shared__ bool last;
  atomicAdd(&total[(own * 7) % 16], 1);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(arrived, 1) == gridDim.x - 1;  // ~ note not-judged
  __syncthreads();
  if (last && threadIdx.x == 0) for (int n = 0; n < 16; ++n) total[16] += total[n];
}

// The same without a barrier.
extern "C" __global__ void hasty_histogram(const float* x, float* y, unsigned* total, unsigned* arrived) {
  COPY
  __shared__ bool last;
  atomicAdd(&total[(own * 7) % 16], 1);  // = counted
  __threadfence();
  if (threadIdx.x == 0) last = atomicAdd(arrived, 1) == gridDim.x - 1;  // ~ note not-judged
  __syncthreads();
  if (last && threadIdx.x == 0) for (int n = 0; n < 16; ++n) total[16] += total[n];  // ~ global_race with counted
}

// Blocks take tiles, and the last one to end resets both counters. No fence orders that, in any persistent kernel.
extern "C" __global__ void tiles(const float* x, float* y, unsigned* total, unsigned* arrived) {
  COPY
  if (threadIdx.x > 0) return;
  while (atomicAdd(&arrived[0], 1) < 8);
  if (atomicAdd(&arrived[1], 1) == gridDim.x - 1) arrived[0] = arrived[1] = 0;
}

// The last one reads how many were taken: whether another block's update has come by then is open.
extern "C" __global__ void counted_tiles(const float* x, float* y, unsigned* total, unsigned* arrived) {
  COPY
  if (threadIdx.x > 0) return;
  while (atomicAdd(&arrived[0], 1) < 8);  // = taken
  if (atomicAdd(&arrived[1], 1) == gridDim.x - 1) total[0] = arrived[0];  // ~ global_race with taken
}
