// Whole numbers in tensors of floats, on which a rounding or an index is decided. Every second kernel is right.

//@ gates: {max_err: 0}
//@ tensors: {x: {type: f32, shape: [256], fill: {integers: {low: -9, high: 9}}}, y: {role: out, type: f32, shape: [256]}}
//@ reference: {user: {source: integers-of-floats.cpp, function: rounded_up, args: [{tensor: x}, {tensor: "y"}]}}
extern "C" __global__ void rounds_up_beyond(const float* x, float* y, int n) {  // ! beyond-limit
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = floorf(x[i]) + 1.0f;
}

//@ tensors: {x: {type: f32, shape: [256], fill: {integers: {low: -9, high: 9}}}, y: {role: out, type: f32, shape: [256]}}
//@ reference: {user: {source: integers-of-floats.cpp, function: rounded_up, args: [{tensor: x}, {tensor: "y"}]}}
extern "C" __global__ void rounds_up(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = ceilf(x[i]);
}

// Indices that are floats: half has no odd ones above 2048.
//@ tensors: {at: {type: f32, shape: [4096], fill: iota}, x: {type: f32, shape: [4096]}, y: {role: out, type: f32, shape: [4096]}}
//@ args: [{tensor: at}, {tensor: x}, {tensor: "y"}]
//@ launch: {grid: [64], block: [64]}
//@ reference: {unary: {x: x, out: "y", op: copy}}
extern "C" __global__ void index_by_half(const float* at, const float* x, float* y) {  // ! beyond-limit
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned short rounded;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(rounded) : "f"(at[i]));
  float index;
  asm("cvt.f32.f16 %0, %1;" : "=f"(index) : "h"(rounded));
  y[i] = x[min(4095, static_cast<int>(index))];
}

//@ tensors: {at: {type: f32, shape: [4096], fill: iota}, x: {type: f32, shape: [4096]}, y: {role: out, type: f32, shape: [4096]}}
//@ args: [{tensor: at}, {tensor: x}, {tensor: "y"}]
//@ launch: {grid: [64], block: [64]}
//@ reference: {unary: {x: x, out: "y", op: copy}}
extern "C" __global__ void index_by_float(const float* at, const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[static_cast<int>(at[i])];
}
