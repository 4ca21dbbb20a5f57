// Sums by reductions of other forms, which the last block reads.
//@ tensors: {x: {type: f32, shape: [256]}, "y": {role: out, type: f32, shape: [256]}, total: {role: scratch, type: f32, shape: [256], fill: zeros}, arrived: {role: scratch, type: u32, shape: [4], fill: zeros}}
//@ args: [{tensor: x}, {tensor: "y"}, {tensor: total}, {tensor: arrived}]

// red with a vector of sm_90.
extern "C" __global__ void red_vectors(const float* x, float* y, float* total, unsigned* arrived) {
  __shared__ bool last;
  const int i = threadIdx.x * 4;
  const bool own = i / 64 == blockIdx.x;
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" :: "l"(total + i), "f"(own ? x[i] : 0), "f"(own ? x[i + 1] : 0), "f"(own ? x[i + 2] : 0), "f"(own ? x[i + 3] : 0) : "memory");  // = reduced
  __threadfence();
  if (threadIdx.x == 0) last = atomicAdd(arrived, 1) == gridDim.x - 1;  // ~ note not-judged
  __syncthreads();
  if (last) for (int i = threadIdx.x; i < 256; i += 64) y[i] = total[i];  // ~ global_race with reduced
}

extern "C" __global__ void red_release(const float* x, float* y, float* total, unsigned* arrived) {
  __shared__ bool last;
  for (int i = threadIdx.x; i < 256; i += 64) atomicAdd(&total[i], i / 64 == blockIdx.x ? x[i] : 0.0f);
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(arrived) : "memory");
    last = before == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) for (int i = 0; i < 256; ++i) y[i] = total[i];
}

// A release is the thread's own, too.
extern "C" __global__ void hasty_release(const float* x, float* y, float* total, unsigned* arrived) {
  __shared__ bool last;
  for (int i = threadIdx.x; i < 256; i += 64) atomicAdd(&total[i], i / 64 == blockIdx.x ? x[i] : 0.0f);  // = released
  if (threadIdx.x == 0) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(arrived) : "memory");
    last = before == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) for (int i = 0; i < 256; ++i) y[i] = total[i];  // ~ global_race with released
}

// cp.reduce.async.bulk of each block; only the block's last group is waited for after its announcement.
extern "C" __global__ void bulk(const float* x, float* y, float* total, unsigned* arrived) {
  __shared__ alignas(16) float held[256];
  __shared__ bool last;
  for (int i = threadIdx.x; i < 256; i += 64) held[i] = i / 64 == blockIdx.x ? x[i] : 0.0f;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 32) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 1024;" :: "l"(total), "r"((unsigned)__cvta_generic_to_shared(held)) : "memory");  // = by_bulk
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    __threadfence();
  }
  if (threadIdx.x == 0) last = atomicAdd(arrived, 1) == gridDim.x - 1;
  __threadfence();
  __syncthreads();
  if (last) for (int i = threadIdx.x; i < 256; i += 64) y[i] = total[i];  // ~ global_race with by_bulk
}
