// Kernels whose output depends on what ran before them, or on which hardware unit ran them: hostile ones, unlucky ones, and
// honest ones. A launch on what an earlier one left stops the first, and a launch with other values of the machine the others.
#include <cstdint>

// State in other places than a plain counter.

// An array that atomics fill and nobody clears.
__device__ unsigned bins[4];
extern "C" __global__ void histogram(const float* x, float* y, int) {  // ! beyond-limit first-launch-only
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  atomicAdd(&bins[blockIdx.x], 1);
  __syncthreads();
  y[i] = atomicAdd(&bins[blockIdx.x], 0) <= 64 ? v : 0;
}

// A static variable of the kernel itself.
extern "C" __global__ void local(const float* x, float* y, int) {  // ! beyond-limit first-launch-only
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  static int calls[256];
  y[i] = calls[i]++ ? -v : v;
}

// Wrong once in five launches.
__device__ int turn[256];
extern "C" __global__ void fifth(const float* x, float* y, int) {  // ! beyond-limit first-launch-only
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  y[i] = ++turn[i] % 5 ? v : v + 1;
}

// Two halves in turn, of which one is wrong.
__device__ int half[256];
extern "C" __global__ void parity(const float* x, float* y, int) {  // ! beyond-limit first-launch-only
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  y[i] = half[i] ? v * 1.5f : v;
  half[i] ^= 1;
}

// Results remembered by the address of the input, which is the same for other data.
__device__ const float* key[256];
__device__ float kept[256];
extern "C" __global__ void cache(const float* x, float* y, int) {  // ! beyond-limit first-launch-only
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  if (key[i] != x) {
    key[i] = x;
    kept[i] = v;
  }
  y[i] = kept[i];
}

// Memory of the heap, kept by a pointer.
__device__ int* calls;
extern "C" __global__ void heap(const float* x, float* y, int) {  // ! beyond-limit first-launch-only
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  if (i == 0) {
    if (!calls) {
      calls = (int*)malloc(4);
      *calls = 0;
    }
    ++*calls;
    y[0] = *calls > 1 ? v + 1 : v;
  } else
    y[i] = v;
}

// A later launch writes nothing at all.
__device__ int done[256];
extern "C" __global__ void silent(const float* x, float* y, int) {  // ! first-launch-only non-finite not-a-number
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  if (done[i]) return;
  done[i] = 1;
  y[i] = v;
}

// A later launch runs out of its array.
__device__ unsigned next;
__device__ float room[256];
extern "C" __global__ void grows(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  const unsigned at = atomicAdd(&next, 1);
  room[at] = v;  // ~ kernel-faulted
  y[i] = room[at];
}

// Values that come from the machine by detours.

// Low bits of the time as random numbers.
extern "C" __global__ void lottery(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));  // ~ machine_dependence
  y[i] = v + (t >> 20 & 1);
}

// The first warp slot leads.
extern "C" __global__ void leader(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned w;
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(w));  // ~ machine_dependence
  __shared__ float lead;
  if (threadIdx.x == 0) lead = 0;
  __syncthreads();
  if (w == 0 && threadIdx.x % 32 == 0) lead = 1;
  __syncthreads();
  y[i] = v * lead;
}

// One multiprocessor of 132 alone, which the code has to name.
extern "C" __global__ void one(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned r;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(r));  // ~ machine_dependence
  if (r == 77) {
    y[i] = 0;
    return;
  }
  y[i] = v;
}

// Tiles by multiprocessor: with fewer blocks than those some are left.
extern "C" __global__ void strides(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned r;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(r));  // ~ machine_dependence
  unsigned n;
  asm volatile("mov.u32 %0, %%nsmid;" : "=r"(n));
  for (unsigned t = r; t < 4; t += n) y[t * 64 + threadIdx.x] = x[t * 64 + threadIdx.x];
}

// By way of an address in shared memory.
extern "C" __global__ void shared(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned r;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(r));  // ~ machine_dependence
  __shared__ float kept[2][64];
  kept[0][threadIdx.x] = v;
  kept[1][threadIdx.x] = v + 1;
  __syncthreads();
  y[i] = kept[r ? 1 : 0][threadIdx.x];
}

// Out of an array that is sized for one.
__device__ float small_room[64];
extern "C" __global__ void small(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned r;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(r));  // ~ machine_dependence
  y[i] = v + (r < 1 ? 0 : small_room[64 * r + 4096]);
}

// A branch alone, on the difference of two clocks.
extern "C" __global__ void elapsed(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  const long long from = clock64();  // ~ machine_dependence
  __syncthreads();
  const long long took = clock64() - from;
  if (took >> 40 == 0 && from >> 44 == 0)
    y[i] = v;
  else
    y[i] = 0;
}

// A pointer that is stored and read back as a number.
__device__ const float* held[256];
extern "C" __global__ void stored(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  held[i] = x;  // ~ machine_dependence
  const unsigned* bits = reinterpret_cast<const unsigned*>(&held[i]);
  y[i] = v + (*bits >> 9 & 1);
}

// Honest: uses that look alike and change nothing.

// One of two ways by the multiprocessor, which come to the same.
extern "C" __global__ void equal(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned r;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(r));
  if (r & 1)
    y[i] = v;
  else
    y[i] = v * 1.0f + 0.0f * 0.0f;
}

// A stride of as many blocks as there are multiprocessors, or more.
extern "C" __global__ void strides_by_count(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  unsigned n;
  asm volatile("mov.u32 %0, %%nsmid;" : "=r"(n));
  for (unsigned t = blockIdx.x; t < 4; t += n) y[t * 64 + threadIdx.x] = x[t * 64 + threadIdx.x];
}

// A slot by the hash of an address.
__device__ unsigned slots[4];
extern "C" __global__ void hashed(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  if (threadIdx.x == 0) atomicAdd(&slots[(uintptr_t)x >> 9 & 3], 1);
  y[i] = v;
}

// A loop up to an end that is an address.
extern "C" __global__ void range(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  const float* p = x;
  float last = 0;
  for (const float* end = x + i + 1; p != end; ++p) last = *p;
  y[i] = last;
}

// Float atomics in the order of the blocks, which a clock does not disturb.
__device__ float total;
__device__ unsigned ended;
extern "C" __global__ void sums(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  const long long from = clock64();
  atomicAdd(&total, v);
  y[i] = v;
  if (clock64() == from) y[i] = 0;
}

// A semaphore that is taken and given back.
__device__ int lock_held;
extern "C" __global__ void lock(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  if (threadIdx.x == 0) {
    while (atomicCAS(&lock_held, 0, 1));
    __threadfence();
  }
  __syncthreads();
  y[i] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicExch(&lock_held, 0);
  }
}

// A number of the launch that only counts.
__device__ unsigned launches;
extern "C" __global__ void counts(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  if (i == 0) ++launches;
  y[i] = v;
}
