// An access that is computed from the address of one variable and lies in another, in shared memory: the window alone
// does not tell, as both are in it. Each is stopped by the bounds of the variable that its address comes from.

extern "C" __global__ void one_past_the_end(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  r[threadIdx.x] = 0;
  __syncthreads();
  s[threadIdx.x + n / 256] = x[i];  // ~ kernel-faulted
  __syncthreads();
  y[i] = s[threadIdx.x + n / 256] + r[threadIdx.x ^ 1];
}

extern "C" __global__ void read_past_the_end(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = x[i];
  r[threadIdx.x] = x[i];
  __syncthreads();
  y[i] = s[threadIdx.x + n / 256] + r[threadIdx.x ^ 1];  // ~ kernel-faulted
}

extern "C" __global__ void all_of_the_neighbour(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  r[threadIdx.x ^ 1] = 0;
  __syncthreads();
  s[threadIdx.x + n / 4] = x[i];  // ~ kernel-faulted
  __syncthreads();
  y[i] = s[threadIdx.x] + r[threadIdx.x];
}

extern "C" __global__ void before_the_beginning(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = 0;
  r[threadIdx.x] = 0;
  __syncthreads();
  r[int(threadIdx.x) - n / 256] = x[i];  // ~ kernel-faulted
  __syncthreads();
  y[i] = s[threadIdx.x ^ 1] + r[threadIdx.x ^ 2];
}

// The row has a place too few, and the last one is behind the array.
extern "C" __global__ void in_two_dimensions(const float* x, float* y, int n) {
  __shared__ float s[8][8], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  r[threadIdx.x] = 0;
  __syncthreads();
  float* places = &s[0][0];
  places[threadIdx.x / 8 * (n / 32 + 1) + threadIdx.x % 8] = x[i];  // ~ kernel-faulted
  __syncthreads();
  y[i] = s[threadIdx.x / 8][threadIdx.x % 8] + r[threadIdx.x ^ 1];
}

extern "C" __global__ void a_vector_across_the_end(const float* x, float* y, int n) {
  __shared__ alignas(16) float s[62];
  __shared__ float r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  r[threadIdx.x] = 0;
  s[threadIdx.x % 62] = x[i];
  __syncthreads();
  const float2 both = *reinterpret_cast<const float2*>(&s[threadIdx.x / 2 * 2]);  // ~ kernel-faulted
  y[i] = (threadIdx.x % 2 ? both.y : both.x) + r[threadIdx.x ^ 1];
}

extern "C" __global__ void atomic(const float* x, float* y, int n) {
  __shared__ int s[32], r[32];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x < 32) s[threadIdx.x] = r[threadIdx.x] = 0;
  __syncthreads();
  const unsigned at = unsigned(__cvta_generic_to_shared(&r[threadIdx.x % (n / 8 + 1)]));
  asm volatile("red.shared.add.s32 [%0], %1;" ::"r"(at), "r"(1) : "memory");  // ~ kernel-faulted
  __syncthreads();
  y[i] = x[i] + 0 * s[threadIdx.x % 32] + 0 * r[threadIdx.x % 31];
}

// Dynamic shared memory is one block, which begins behind the static variables.
//@ launch: {grid: [4], block: [64], dynamic_shared: 256}
extern "C" __global__ void before_dynamic_memory(const float* x, float* y, int n) {
  extern __shared__ float dynamic[];
  __shared__ float s[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x ^ 1] = 0;
  __syncthreads();
  dynamic[int(threadIdx.x) - n / 256] = x[i];  // ~ kernel-faulted
  __syncthreads();
  y[i] = dynamic[threadIdx.x] + s[threadIdx.x];
}

//@ launch: {grid: [4], block: [64], dynamic_shared: 256}
extern "C" __global__ void into_dynamic_memory(const float* x, float* y, int n) {
  extern __shared__ float dynamic[];
  __shared__ float s[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  dynamic[threadIdx.x] = 0;
  __syncthreads();
  s[threadIdx.x + n / 256] = x[i];  // ~ kernel-faulted
  __syncthreads();
  y[i] = s[threadIdx.x + n / 256] + dynamic[threadIdx.x ^ 1];
}

// The last turn of the loop moves the pointer out of its array.
extern "C" __global__ void moved_by_a_loop(const float* x, float* y, int n) {
  __shared__ float s[128], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  r[threadIdx.x ^ 1] = 0;
  __syncthreads();
  float* at = s + threadIdx.x;
#pragma unroll 1
  for (int turn = 0; turn <= n / 128; ++turn, at += 64) *at = x[i];  // ~ kernel-faulted
  __syncthreads();
  y[i] = s[threadIdx.x] + r[threadIdx.x];
}

__device__ void put(float* to, int at, float value);

// The pointer goes through the arguments of a function, as a generic address.
extern "C" __global__ void by_a_function(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  r[threadIdx.x ^ 1] = 0;
  __syncthreads();
  put(s, threadIdx.x + n / 256, x[i]);
  __syncthreads();
  y[i] = s[threadIdx.x + n / 256] + r[threadIdx.x];
}

__device__ __noinline__ void put(float* to, int at, float value) {
  to[at] = value;  // ~ kernel-faulted
}

extern "C" __global__ void by_a_window_address(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  r[threadIdx.x ^ 1] = 0;
  __syncthreads();
  const unsigned at = unsigned(__cvta_generic_to_shared(&s[threadIdx.x])) + n / 64;
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(x[i]) : "memory");  // ~ kernel-faulted
  __syncthreads();
  y[i] = s[threadIdx.x] + r[threadIdx.x];
}

extern "C" __global__ void asynchronous_copy(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  r[threadIdx.x ^ 1] = 0;
  __syncthreads();
  const unsigned at = unsigned(__cvta_generic_to_shared(&s[threadIdx.x + n / 256]));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(x + i) : "memory");  // ~ kernel-faulted
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  y[i] = s[threadIdx.x + n / 256] + r[threadIdx.x];
}

// One of two arrays is meant, and the access lies in the third.
extern "C" __global__ void a_choice_of_two(const float* x, float* y, int n) {
  __shared__ float s[64], r[64], t[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = r[threadIdx.x] = t[threadIdx.x] = x[i];
  __syncthreads();
  float* chosen = x[0] > 2 ? s : r;
  chosen[threadIdx.x + n / 4] = x[i];  // ~ kernel-faulted
  __syncthreads();
  y[i] = (s[threadIdx.x ^ 1] + r[threadIdx.x ^ 1]) * 0 + t[threadIdx.x];
}

// A fragment that begins one row too far.
extern "C" __global__ void fragment_rows(const float* x, float* y, int n) {
  __shared__ alignas(32) unsigned s[16][8];
  __shared__ alignas(32) unsigned r[16][8];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = threadIdx.x; k < 128; k += 64) s[k / 8][k % 8] = r[k / 8][k % 8] = 0;
  __syncthreads();
  const unsigned at = unsigned(__cvta_generic_to_shared(s)) + n / 8;
  unsigned part[8];
  asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], 16;"
               : "=r"(part[0]), "=r"(part[1]), "=r"(part[2]), "=r"(part[3]), "=r"(part[4]), "=r"(part[5]),
                 "=r"(part[6]), "=r"(part[7]) : "r"(at) : "memory");  // ~ kernel-faulted
  y[i] = x[i] + float(part[0] + part[7]) + float(r[threadIdx.x % 16][0]);
}

extern "C" __global__ void matrix_rows(const float* x, float* y, int n) {
  __shared__ alignas(16) unsigned s[32], r[32];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x < 32) s[threadIdx.x] = r[threadIdx.x] = 0;
  __syncthreads();
  const unsigned at = unsigned(__cvta_generic_to_shared(s)) + (threadIdx.x % 8 + n / 256) * 16;
  unsigned part;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(part) : "r"(at) : "memory");  // ~ kernel-faulted
  y[i] = x[i] + float(part) + float(r[threadIdx.x % 32]);
}

// A barrier that is not there: the third of two.
extern "C" __global__ void barriers(const float* x, float* y, int n) {
  __shared__ unsigned long long full[2], other[2];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned at = unsigned(__cvta_generic_to_shared(full)) + n / 16;
  if (threadIdx.x == 0) {
    other[0] = other[1] = 0;
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");  // ~ kernel-faulted
  }
  __syncthreads();
  y[i] = x[i] + float(other[threadIdx.x % 2]) * 0 + 0 * (at & 1);
}

// 64 bytes too many for the array.
extern "C" __global__ void bulk_copy(const float* x, float* y, int n) {
  __shared__ alignas(128) float s[64];
  __shared__ alignas(128) float r[64];
  __shared__ alignas(8) unsigned long long full;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned to = unsigned(__cvta_generic_to_shared(s)), bar = unsigned(__cvta_generic_to_shared(&full));
  r[threadIdx.x] = 0;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(n + 64) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(to), "l"(x), "r"(n + 64), "r"(bar) : "memory");  // ~ kernel-faulted
  }
  __syncthreads();
  asm volatile("{ .reg .pred done; \n"
               "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0; \n"
               "@!done bra again; }" ::"r"(bar) : "memory");
  y[i] = s[threadIdx.x] + r[threadIdx.x];
}

// Of another block of the cluster.
//@ launch: {grid: [4], block: [64], cluster: [2]}
extern "C" __global__ void in_another_block(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  r[threadIdx.x ^ 1] = 0;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  unsigned rank, at;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at)
      : "r"(unsigned(__cvta_generic_to_shared(&s[threadIdx.x + n / 256]))), "r"(rank ^ 1));
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(at), "f"(x[i ^ 64]) : "memory");  // ~ kernel-faulted
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  y[i] = s[threadIdx.x] + r[threadIdx.x];
}
