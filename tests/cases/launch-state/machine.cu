// A kernel whose output depends on which part of the machine ran it and when: a launch with other values shows it. Nothing
// else tells: with the values that a kernel usually sees the output is right.
#include <cstdint>

// Which multiprocessor ran it.
extern "C" __global__ void smid(const float* x, float* y, int) {  // ! findings
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned r;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(r));  // ~ machine_dependence
  y[i] = v + r;
}

// How many multiprocessors there are.
extern "C" __global__ void nsmid(const float* x, float* y, int) {  // ! findings
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned r;
  asm volatile("mov.u32 %0, %%nsmid;" : "=r"(r));  // ~ machine_dependence
  y[i] = v + (r - 1);
}

// Which warp slot ran it.
extern "C" __global__ void warpid(const float* x, float* y, int) {  // ! findings
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned r;
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(r));  // ~ machine_dependence
  y[i] = r == threadIdx.x / 32 ? v : 0;
}

// How many warp slots there are.
extern "C" __global__ void nwarpid(const float* x, float* y, int) {  // ! findings
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned r;
  asm volatile("mov.u32 %0, %%nwarpid;" : "=r"(r));  // ~ machine_dependence
  if (r == 2)
    y[i] = v;
  else
    y[i] = 0;
}

// The number of the grid.
extern "C" __global__ void gridid(const float* x, float* y, int) {  // ! findings
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned long long r;
  asm volatile("mov.u64 %0, %%gridid;" : "=l"(r));  // ~ machine_dependence
  y[i] = v + r;
}

// When it ran, in clocks.
extern "C" __global__ void ticks64(const float* x, float* y, int) {  // ! findings
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned long long r;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(r));  // ~ machine_dependence
  y[i] = r > (1ull << 40) ? 0 : v;
}

// When it ran, in nanoseconds.
extern "C" __global__ void globaltimer(const float* x, float* y, int) {  // ! findings
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned long long r;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(r));  // ~ machine_dependence
  y[i] = r > (1ull << 40) ? 0 : v;
}

// When it ran, in the lower half of the clocks.
extern "C" __global__ void ticks(const float* x, float* y, int) {  // ! findings
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned r;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(r));  // ~ machine_dependence
  y[i] = r > (1u << 30) ? 0 : v;
}

// A counter of the profiler.
extern "C" __global__ void pm(const float* x, float* y, int) {  // ! findings
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned r;
  asm volatile("mov.u32 %0, %%pm3;" : "=r"(r));  // ~ machine_dependence
  y[i] = r > (1u << 30) ? 0 : v;
}

// How much shared memory a block was given.
extern "C" __global__ void smem(const float* x, float* y, int) {  // ! findings
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned r;
  asm volatile("mov.u32 %0, %%total_smem_size;" : "=r"(r));  // ~ machine_dependence
  __shared__ float s[64];
  s[threadIdx.x] = v;
  y[i] = r == 256 ? s[threadIdx.x] : 0;
}

// A register that the driver sets.
extern "C" __global__ void envreg(const float* x, float* y, int) {  // ! findings
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned r;
  asm volatile("mov.u32 %0, %%envreg3;" : "=r"(r));  // ~ machine_dependence
  y[i] = v + r;
}

// Another register that the driver sets.
extern "C" __global__ void workspace(const float* x, float* y, int) {  // ! findings
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned r;
  asm volatile("mov.u32 %0, %%envreg2;" : "=r"(r));  // ~ machine_dependence
  y[i] = v + r;
}

// Bits of an address.
extern "C" __global__ void address(const float* x, float* y, int) {  // ! findings
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  y[i] = v + ((uintptr_t)x >> 12 & 1);  // ~ machine_dependence
}

// Honest: ordinary uses, which no output depends on.

// Work that is picked by the multiprocessor.
__device__ unsigned taken[2], ended;
extern "C" __global__ void picks(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned r;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(r));
  __shared__ unsigned tile;
  for (unsigned turn = r & 1;; turn ^= 1) {
    if (threadIdx.x == 0) tile = atomicAdd(&taken[turn], 1);
    __syncthreads();
    const unsigned mine = tile;
    __syncthreads();
    if (mine >= 2) {
      if (turn != (r & 1)) break;
      continue;
    }
    const unsigned at = (turn * 2 + mine) * 64 + threadIdx.x;
    y[at] = x[at];
  }
  if (threadIdx.x == 0 && atomicAdd(&ended, 1) == gridDim.x - 1) {
    taken[0] = taken[1] = 0;
    ended = 0;
  }
}

// A slot for each multiprocessor.
__device__ unsigned slot[132];
extern "C" __global__ void slots(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned r;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(r));
  if (threadIdx.x == 0) atomicAdd(&slot[r], 1);
  y[i] = v;
  if (threadIdx.x == 0) atomicSub(&slot[r], 1);
}

// Waiting that gives up.
__device__ int ready;
extern "C" __global__ void waits(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  if (i == 0) atomicExch(&ready, 1);
  const long long from = clock64();
  if (threadIdx.x == 0)
    while (!atomicAdd(&ready, 0) && clock64() - from < 1000000) __nanosleep(20);
  __syncthreads();
  y[i] = v;
}

// Times in working memory.
//@ tensors: {x: {type: f32, shape: [256]}, "y": {role: out, type: f32, shape: [256]}, times: {role: scratch, type: i64, shape: [256]}}
//@ args: [{tensor: x}, {tensor: "y"}, {i32: 256}, {tensor: times}]
extern "C" __global__ void timed(const float* x, float* y, int, long long* times) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  const long long from = clock64();
  y[i] = v;
  times[i] = clock64() - from;
}

// A way for aligned pointers, and a pointer that may be null.
extern "C" __global__ void aligned(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  if (((uintptr_t)x & 15) == 0 && ((uintptr_t)y & 15) == 0 && x != nullptr) {
    if (threadIdx.x < 16)
      reinterpret_cast<float4*>(y)[blockIdx.x * 16 + threadIdx.x] =
          reinterpret_cast<const float4*>(x)[blockIdx.x * 16 + threadIdx.x];
  } else
    y[i] = v;
}

// A size that the launch decides.
extern "C" __global__ void sized(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned r;
  asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(r));
  y[i] = v + r;
}
