// Outputs that depend on where variables of the module and blocks of `malloc` lie.
// Attempted: variables had the same addresses in each launch. Stopped: the module is loaded a second time, with its
// variables in the reverse order.
//@ seeds: 1
#include <cstdint>
__device__ float table[256];
__device__ float other[64];
__constant__ float fixed[4] = {1, 2, 3, 4};
struct Node { const float* at; };
__device__ Node node = {other};

#define I const int i = blockIdx.x * 64 + threadIdx.x

extern "C" __global__ void bits_of_variable(const float* x, float* y, int n) {
  I;
  y[i] = (uintptr_t)&table[0] >> 20 & 1 ? 0.0f : x[i];  // ~ machine_dependence
}

extern "C" __global__ void order_of_variables(const float* x, float* y, int n) {
  I;
  y[i] = (uintptr_t)table < (uintptr_t)other == n < 0 ? 0.0f : x[i];  // ~ machine_dependence
}

extern "C" __global__ void variable_and_buffer(const float* x, float* y, int n) {
  I;
  y[i] = (intptr_t)x - (intptr_t)table < (1ll << 40) ? x[i] : 0.0f;  // ~ machine_dependence
}

extern "C" __global__ void heap_bits(const float* x, float* y, int n) {
  I;
  void* p = malloc(16);  // ~ machine_dependence
  y[i] = (uintptr_t)p >> 12 & 1 ? x[i] + 1 : x[i];
  free(p);
}

extern "C" __global__ void heap_distance(const float* x, float* y, int n) {
  I;
  char* p = (char*)malloc(16);  // ~ machine_dependence
  char* q = (char*)malloc(16);
  y[i] = (q - p) % 65536 == 0 ? x[i] : 0.0f;
  free(p);
  free(q);
}

// Honest: variables that are indexed, tables of pointers that are followed.
extern "C" __global__ void looked_up(const float* x, float* y, int n) {
  I;
  y[i] = x[i] * fixed[0] + 0.0f * node.at[threadIdx.x];
}

extern "C" __global__ void chosen(const float* x, float* y, int n) {
  I;
  const float* p = n > 1000 ? table : x;
  y[i] = p[i];
}

extern "C" __global__ void walked(const float* x, float* y, int n) {
  I;
  float sum = 0;
  for (const float* p = fixed; p != fixed + 4; ++p) sum += *p;
  y[i] = sum == 10.0f ? x[i] : 0.0f;
}

extern "C" __global__ void heap_list(const float* x, float* y, int n) {
  I;
  float* p = (float*)malloc(4);
  if (!p) return;
  *p = x[i];
  y[i] = *p;
  free(p);
}
