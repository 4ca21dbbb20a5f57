// Honest ways to come to an address in shared memory, next to those of out-of-a-shared-array.cu: none has a finding.

extern "C" __global__ void base_before_the_beginning(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float* before = r - blockDim.x;
  before[threadIdx.x + blockDim.x] = x[i];
  s[threadIdx.x] = 0;
  __syncthreads();
  const float* one_before = s - 1;
  y[i] = r[threadIdx.x] + one_before[threadIdx.x + 1];
}

extern "C" __global__ void swapped_buffers(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float *now = s, *next = r;
  now[threadIdx.x] = x[i];
#pragma unroll 1
  for (int turn = 0; turn < n / 64; ++turn) {
    __syncthreads();
    next[threadIdx.x] = now[threadIdx.x];
    float* other = now;
    now = next;
    next = other;
  }
  y[i] = now[threadIdx.x];
}

extern "C" __global__ void array_of_pointers(const float* x, float* y, int n) {
  __shared__ float s[64], r[64], t[64];
  float* all[3] = {s, r, t};
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (int turn = 0; turn < n / 64; ++turn) all[turn % 3][threadIdx.x] = x[i];
  y[i] = all[n % 3][threadIdx.x];
}

//@ launch: {grid: [4], block: [64], dynamic_shared: 1024}
extern "C" __global__ void carved_dynamic_memory(const float* x, float* y, int n) {
  extern __shared__ char dynamic[];
  __shared__ int count[2];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x < 2) count[threadIdx.x] = 64;
  __syncthreads();
  float* first = reinterpret_cast<float*>(dynamic);
  double* second = reinterpret_cast<double*>(first + count[0]);
  float* over_both = first + 2 * threadIdx.x;
  first[threadIdx.x] = x[i];
  second[threadIdx.x] = 1;
  __syncthreads();
  const float all = over_both[0] + over_both[64 - threadIdx.x];
  y[i] = first[threadIdx.x] + 0 * (all + float(second[threadIdx.x]) + count[1]);
}

extern "C" __global__ void one_struct(const float* x, float* y, int n) {
  __shared__ struct {
    float a[32], b[32];
  } both;
  __shared__ float r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  reinterpret_cast<float*>(&both)[threadIdx.x] = x[i];
  r[threadIdx.x] = 0;
  __syncthreads();
  y[i] = (threadIdx.x < 32 ? both.a[threadIdx.x] : both.b[threadIdx.x - 32]) + r[threadIdx.x ^ 1];
}

extern "C" __global__ void up_to_the_end(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = r[threadIdx.x] = x[i];
  __syncthreads();
  float most = r[threadIdx.x];
#pragma unroll 1
  for (const float* at = s; at != s + 64; ++at) most = fmaxf(most, *at);
#pragma unroll 1
  for (const float* at = s + 64; at != s; --at) most = fmaxf(most, at[-1]);
  y[i] = r[threadIdx.x] + 0 * most;
}

__device__ __noinline__ float exchange(float* in, int at, float value) {
  in[at] = value;
  return in[at];
}

// A function that is called with several arrays, in several spaces.
extern "C" __global__ void by_a_function(const float* x, float* y, int n) {
  __shared__ float s[64], r[128];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = exchange(s, threadIdx.x, x[i]);
  value = exchange(r, threadIdx.x + 64, value);
  exchange(y, i, value);
}

extern "C" __global__ void pointer_of_another_lane(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float* own = threadIdx.x % 2 ? s : r;
  const unsigned long long other = __shfl_xor_sync(~0u, reinterpret_cast<unsigned long long>(own), 1);
  reinterpret_cast<float*>(other)[threadIdx.x] = x[i];
  y[i] = reinterpret_cast<float*>(other)[threadIdx.x];
}

// The place in one array, taken over to the other by the distance of the two.
extern "C" __global__ void by_a_difference(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned first = unsigned(__cvta_generic_to_shared(s)), second = unsigned(__cvta_generic_to_shared(r));
  unsigned distance = second - first;
  asm volatile("mov.u32 %0, %0;" : "+r"(distance));
  s[threadIdx.x] = 0;
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(first + 4 * threadIdx.x + distance), "f"(x[i]) : "memory");
  y[i] = r[threadIdx.x] + s[threadIdx.x];
}

//@ launch: {grid: [4], block: [64], dynamic_shared: 1408}
extern "C" __global__ void rounded_up(const float* x, float* y, int n) {
  extern __shared__ char dynamic[];
  __shared__ float s[8];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x < 8) s[threadIdx.x] = 0;
  __syncthreads();
  const unsigned at = (unsigned(__cvta_generic_to_shared(dynamic)) + 1023) & ~1023u;
  const unsigned swizzled = at + (4 * threadIdx.x ^ (threadIdx.x & 7) << 4);
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(swizzled), "f"(x[i]) : "memory");
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(swizzled) : "memory");
  y[i] = value + s[threadIdx.x % 8];
}

// What the compiler takes apart: a scalar for each place.
extern "C" __global__ void taken_apart(const float* x, float* y, int n) {
  __shared__ float two[2], three[3];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) two[0] = three[2] = 0;
  if (threadIdx.x == 33) two[1] = three[0] = 0;
  __syncthreads();
  y[i] = x[i] + two[0] + two[1] + three[0] + three[2];
}

// A hash of an address is a number like any other.
extern "C" __global__ void number_of_an_address(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned at = unsigned(__cvta_generic_to_shared(&r[threadIdx.x]));
  s[at / 4 % 64] = x[i];
  r[threadIdx.x] = 0;
  y[i] = s[at / 4 % 64] + r[threadIdx.x];
}

//@ launch: {grid: [4], block: [64], cluster: [2]}
extern "C" __global__ void in_another_block(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  r[threadIdx.x] = 0;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  unsigned rank, at;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at)
      : "r"(unsigned(__cvta_generic_to_shared(&s[threadIdx.x]))), "r"(rank ^ 1));
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(at), "f"(x[i ^ 64]) : "memory");
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  y[i] = s[threadIdx.x] + r[threadIdx.x ^ 1];
}
