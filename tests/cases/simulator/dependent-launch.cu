// Programmatic dependent launch: the grid runs alone here, so that nothing is known of the order with the grids before
// and behind it. The kernel passes with a note.

extern "C" __global__ void waits(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  asm volatile("griddepcontrol.wait;" ::: "memory");  // ~ note not-judged
  y[i] = x[i];
}

extern "C" __global__ void lets_go(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
  asm volatile("griddepcontrol.launch_dependents;");  // ~ note not-judged
}

extern "C" __global__ void by_runtime(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  cudaGridDependencySynchronize();              // ~ note not-judged
  y[i] = x[i];
  cudaTriggerProgrammaticLaunchCompletion();    // ~ note not-judged
}

__device__ __noinline__ void wait_for_grids() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// Never executed: there is nothing to say.
extern "C" __global__ void does_not_come_to_it(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (n < 0) wait_for_grids();
  y[i] = x[i];
}

extern "C" __global__ void without(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
}
