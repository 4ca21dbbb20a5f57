// More bytes than the array has.

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
