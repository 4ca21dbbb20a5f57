// Rows of ldmatrix and a fragment of wmma that begin one row too far. Fragments that fit are in within-library-storage.cu.

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
