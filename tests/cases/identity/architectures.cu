// Code of the second architecture alone, in a form that looks like none of the code. Stopped: its PTX is another, so
// that it is simulated, too.
//@ top: architectures: [sm_80, sm_90]

#if __CUDA_ARCH__ == 900
#define ADDED "0f3F800000"
#define CHOSEN "41_GLOBAL__N__bbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#else
#define ADDED "0f00000000"
#define CHOSEN "41_GLOBAL__N__aaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#endif

extern "C" __global__ void section_in_comment(const float* x, float* y, int n) {  // ! beyond-limit
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
  asm volatile("/*\n.section x\n*/ add.f32 %0, %0, " ADDED ";\n/*\n}\n*/" : "+f"(v));
  y[i] = v;
}

extern "C" __global__ void behind_a_loc(const float* x, float* y, int n) {  // ! beyond-limit
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
  asm volatile("\n.loc 1 1 1 add.f32 %0, %0, " ADDED ";" : "+f"(v));
  y[i] = v;
}

extern "C" __global__ void slashes_in_a_comment(const float* x, float* y, int n) {  // ! beyond-limit
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
  asm volatile("/*\n// */ add.f32 %0, %0, " ADDED ";" : "+f"(v));
  y[i] = v;
}

extern "C" __global__ void private_registers(const float* x, float* y, int n) {  // ! beyond-limit
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
  asm volatile(
      "{ .reg .f32 r41_GLOBAL__N__aaaaaaaaaaaaaaaaaaaaaaaaaaaaa, r41_GLOBAL__N__bbbbbbbbbbbbbbbbbbbbbbbbbbbbb;\n"
      "mov.f32 r41_GLOBAL__N__aaaaaaaaaaaaaaaaaaaaaaaaaaaaa, %0;\n"
      "add.f32 r41_GLOBAL__N__bbbbbbbbbbbbbbbbbbbbbbbbbbbbb, %0, 0f3F800000;\n"
      "mov.f32 %0, r" CHOSEN "; }"
      : "+f"(v));
  y[i] = v;
}

// Honest: the same code for both, with what looks like other things in comments.
extern "C" __global__ void the_same(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  asm volatile("/*\n.section x\n*/ // .loc 1 1 1\n/* } */");
  y[i] = x[i];
}
