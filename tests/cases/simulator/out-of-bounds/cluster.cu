// Behind the end of the array of another block of the cluster, by mapa. Within it stays green.

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

//@ launch: {grid: [4], block: [64], cluster: [2]}
extern "C" __global__ void in_bounds_of_another_block(const float* x, float* y, int n) {
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
