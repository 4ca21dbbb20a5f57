// Accesses of the lanes of one warp: what races, what counts on lanes in step (a note), and what is right. Each kernel copies
// x to y; anything else that it does is the attempt.
//@ launch: {grid: [2], block: [128]}
#define COPY y[blockIdx.x * blockDim.x + threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x]
#define READ(v) asm volatile("" ::"r"(v))
#define AT(p) "l"(p)

// Scopes of the block and of the device by lanes of one block: each takes in the other.
extern "C" __global__ void scopes_in_one_warp(const float* x, float* y, int n) {
  __shared__ int s;
  int v;
  unsigned a = (unsigned)__cvta_generic_to_shared(&s);
  asm volatile("st.relaxed.cta.shared.u32 [%0], %1;" ::"r"(a), "r"(threadIdx.x) : "memory");
  asm volatile("ld.relaxed.gpu.shared.u32 %0, [%1];" : "=r"(v) : "r"(a) : "memory");
  READ(v);
  COPY;
}

// A word and half of it, both relaxed: accesses of different sizes count as one size.
extern "C" __global__ void sizes_of_strong_accesses(const float* x, float* y, int n) {
  __shared__ int s;
  short v;
  unsigned a = (unsigned)__cvta_generic_to_shared(&s);
  asm volatile("st.relaxed.cta.shared.u32 [%0], %1;" ::"r"(a), "r"(threadIdx.x) : "memory");
  asm volatile("ld.relaxed.cta.shared.u16 %0, [%1];" : "=h"(v) : "r"(a) : "memory");
  READ((int)v);
  COPY;
}

// An atomic without a result, and relaxed loads of the same word in all blocks.
__device__ int red_and_relaxed_word;
extern "C" __global__ void red_and_relaxed(const float* x, float* y, int n) {
  int v;
  atomicAdd(&red_and_relaxed_word, 0);
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : AT(&red_and_relaxed_word) : "memory");
  READ(v);
  COPY;
}

// The first attempt of a compare-and-swap on part of a word stands before the loop.
__device__ unsigned cas_of_half_a_word_word;
extern "C" __global__ void cas_of_half_a_word(const float* x, float* y, int n) {
  int shift = threadIdx.x % 2 * 16;
  unsigned cur = cas_of_half_a_word_word, old = atomicCAS(&cas_of_half_a_word_word, cur, cur ^ (1u << shift));
  while (old != cur) {
    cur = old;
    old = atomicCAS(&cas_of_half_a_word_word, cur, cur ^ (1u << shift));
  }
  atomicXor(&cas_of_half_a_word_word, 1u << shift);
  COPY;
}

// Three attempts of a compare-and-swap, and no loop.
__device__ int cas_written_out_word;
extern "C" __global__ void cas_written_out(const float* x, float* y, int n) {
  int cur = cas_written_out_word, old = atomicCAS(&cas_written_out_word, cur, cur);
  if (old != cur) {
    cur = old;
    old = atomicCAS(&cas_written_out_word, cur, cur);
  }
  if (old != cur) {
    cur = old;
    old = atomicCAS(&cas_written_out_word, cur, cur);
  }
  COPY;
}

// A store in the same place that no lane executes.
extern "C" __global__ void predicated_off(const float* x, float* y, int n) {
  __shared__ int s[32];
  unsigned a = (unsigned)__cvta_generic_to_shared(s), t = threadIdx.x % 32;
  int v;
  if (threadIdx.x < 32) s[t] = t;
  __syncthreads();
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(a + 4 * (t ^ 1)) : "memory");
  READ(v);
  asm volatile("{ .reg .pred p; setp.gt.s32 p, %2, 1000; @p st.shared.u32 [%0], %1; }" ::"r"(a), "r"(t),
               "r"(threadIdx.x)
               : "memory");
  COPY;
}

// A reduction as it was written before `__syncwarp()`, volatile: no race, but it counts on lanes in step.
extern "C" __global__ void reduction_in_step(const float* x, float* y, int n) {
  __shared__ int all[128];
  volatile int* s = all;
  int t = threadIdx.x;
  s[t] = t;
  __syncthreads();
  if (t < 32) {
    s[t] += s[t + 32];  // = reduction_in_step
    s[t] += s[t + 16];  // = reduction_in_step_2  // ~ note warp_hazard with reduction_in_step, note warp_hazard
    s[t] += s[t + 8];  // ~ note warp_hazard with reduction_in_step_2, note warp_hazard
  }
  COPY;
}

// The same without volatile: in doubt a race, as several lines read one place.
extern "C" __global__ void reduction_in_step_of_plain_accesses(const float* x, float* y, int n) {
  __shared__ int s[128];
  int t = threadIdx.x;
  s[t] = t;
  __syncthreads();
  if (t < 32) {
    s[t] += s[t + 32];  // = reduction_in_step_of_plain_accesses
    asm volatile("" ::: "memory");
    s[t] += s[t + 16];  // ~ warp_hazard with reduction_in_step_of_plain_accesses, warp_race
  }
  COPY;
  READ(s[t]);
}

// A hazard in a loop whose other iterations are in order.
extern "C" __global__ void hidden_behind_a_loop(const float* x, float* y, int n) {
  __shared__ int s[128];
  int t = threadIdx.x;
#pragma unroll 1
  for (int k = 0; k < 4; k++) {
    s[t] = k;  // = hidden_behind_a_loop
    if (k != n - 253) __syncwarp();
    READ(s[t ^ 1]);  // ~ note warp_hazard with hidden_behind_a_loop
    __syncwarp();
  }
  COPY;
}

// A plain load of what lanes of other warps store relaxed.
__device__ int weak_and_relaxed_word;
extern "C" __global__ void weak_and_relaxed(const float* x, float* y, int n) {
  int v = weak_and_relaxed_word;  // = weak_and_relaxed
  READ(v);
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::AT(&weak_and_relaxed_word), "r"(threadIdx.x) : "memory");  // ~ global_race with weak_and_relaxed, warp_hazard with weak_and_relaxed
  COPY;
}

// A volatile store in a branch, and a plain load behind it.
extern "C" __global__ void volatile_and_weak(const float* x, float* y, int n) {
  __shared__ int s;
  if (threadIdx.x == 3) *(volatile int*)&s = 1;  // = volatile_and_weak
  int v = threadIdx.x < 32 && threadIdx.x > 3 ? s : 0;  // ~ shared_race with volatile_and_weak, warp_race with volatile_and_weak
  READ(v);
  COPY;
}

// A relaxed store of scope .cta to a word of all blocks.
__device__ int scope_across_blocks_word;
extern "C" __global__ void scope_across_blocks(const float* x, float* y, int n) {
  asm volatile("st.relaxed.cta.global.u32 [%0], %1;" ::AT(&scope_across_blocks_word), "r"(blockIdx.x) : "memory");  // ~ global_race
  COPY;
}

// An atomicAdd_block on a counter of all blocks.
__device__ int atomics_of_the_block_across_blocks_word;
extern "C" __global__ void atomics_of_the_block_across_blocks(const float* x, float* y, int n) {
  atomicAdd_block(&atomics_of_the_block_across_blocks_word, 0);  // ~ global_race
  COPY;
}

// Later attempts swap in what follows from the first read.
__device__ int cas_whose_stale_guess_is_swapped_in_word;
extern "C" __global__ void cas_whose_stale_guess_is_swapped_in(const float* x, float* y, int n) {
  int first = cas_whose_stale_guess_is_swapped_in_word, cur = first,  // = cas_whose_stale_guess_is_swapped_in
      old = atomicCAS(&cas_whose_stale_guess_is_swapped_in_word, cur, cur + 1);  // ~ warp_race with cas_whose_stale_guess_is_swapped_in
  while (old != cur) {
    cur = old;
    old = atomicCAS(&cas_whose_stale_guess_is_swapped_in_word, cur, first + 1);  // ~ global_race with cas_whose_stale_guess_is_swapped_in
  }
  COPY;
}

// A scan in shared memory whose lanes leave each step by a branch.
extern "C" __global__ void scan_in_step(const float* x, float* y, int n) {
  __shared__ int s[128];
  int t = threadIdx.x, l = t % 32;
  s[t] = t;  // = scan_in_step
  for (int d = 1; d < 32; d *= 2) {
    if (l >= d) s[t] += s[t - d];  // ~ warp_hazard, warp_race with scan_in_step, warp_race
  }
  COPY;
  READ(s[t]);
}

// `__syncwarp()` of two halves, and a read across them behind a branch.
extern "C" __global__ void mask_of_the_sync(const float* x, float* y, int n) {
  __shared__ int s[128];
  int t = threadIdx.x, l = t % 32;
  if (l < 16) s[t] = t;  // = mask_of_the_sync
  __syncwarp(l < 16 ? 0xffff : 0xffff0000);
  if (l >= 16) READ(s[t - 16]);  // ~ warp_race with mask_of_the_sync
  COPY;
}

// Lanes that stored have returned when others read.
extern "C" __global__ void after_a_return(const float* x, float* y, int n) {
  __shared__ int s[128];
  int t = threadIdx.x, l = t % 32;
  s[t] = t;  // = after_a_return
  COPY;
  if (l >= 16) return;
  READ(s[t + 16]);  // ~ warp_race with after_a_return
}

// A value of lane 0 decides when the other lanes leave the loop.
extern "C" __global__ void decides_the_loop_of_others(const float* x, float* y, int n) {
  __shared__ int s[4];
  int t = threadIdx.x, w = t / 32, k = 0;
  do {
    s[w] = ++k;  // = decides_the_loop_of_others
  } while (*(volatile int*)&s[w] < 3 && k < 9);  // = decides_the_loop_of_others_2  // ~ warp_race with decides_the_loop_of_others
  do {
    s[w] = k--;  // = decides_the_loop_of_others_3  // ~ warp_race with decides_the_loop_of_others_2
    asm volatile("" ::: "memory");
    if (t % 32 == 0) s[w] = k;  // = decides_the_loop_of_others_4  // ~ warp_race with decides_the_loop_of_others_3
  } while (s[w] > 0);  // ~ warp_race with decides_the_loop_of_others_4
  COPY;
}

// A value that is read without order decides what all lanes do, through a vote.
extern "C" __global__ void decides_by_a_vote(const float* x, float* y, int n) {
  __shared__ int s[128];
  int t = threadIdx.x;
  s[t] = t;  // = decides_by_a_vote
  int v = s[t ^ 1];  // ~ warp_race with decides_by_a_vote
  if (__any_sync(~0u, v > 1000)) y[0] = -1;
  COPY;
}
