// Tensors that are views: they begin inside an allocation, where only their own alignment holds. Every second kernel is
// right there.

//@ tensors: {x: {type: f32, shape: [256], offset: 1}, y: {role: out, type: f32, shape: [256]}}
extern "C" __global__ void loads_of_four(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i % 4 != 0) return;
  const float4 four = *reinterpret_cast<const float4*>(x + i);  // ~ kernel-faulted
  y[i] = four.x;
  y[i + 1] = four.y;
  y[i + 2] = four.z;
  y[i + 3] = four.w;
}

//@ tensors: {x: {type: f32, shape: [256], offset: 1}, y: {role: out, type: f32, shape: [256]}}
extern "C" __global__ void loads_of_four_where_aligned(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i % 4 != 0) return;
  float4 four = {x[i], x[i + 1], x[i + 2], x[i + 3]};
  if (reinterpret_cast<unsigned long long>(x) % 16 == 0) four = *reinterpret_cast<const float4*>(x + i);
  y[i] = four.x;
  y[i + 1] = four.y;
  y[i + 2] = four.z;
  y[i + 3] = four.w;
}

// What lies before the view is another's: it is neither read nor written.
//@ tensors: {x: {type: f32, shape: [256]}, y: {role: out, type: f32, shape: [256], offset: 4}}
extern "C" __global__ void writes_before(const float* x, float* y, int n) {  // ! wrote-outside
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
  if (i == 0) y[-1] = x[0];
}

//@ tensors: {x: {type: f32, shape: [256], offset: 4}, y: {role: out, type: f32, shape: [256]}}
extern "C" __global__ void reads_before(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = i == 0 && x[-1] == 2.0f ? 0.0f : x[i];  // ~ uninitialised
}

//@ tensors: {x: {type: f32, shape: [4, 64], strides: [128, 1], offset: 3}, y: {role: inout, type: f32, shape: [256], offset: 2, fill: zeros}}
//@ reference: {user: {source: offset.cpp, function: rows, args: [{tensor: x}, {tensor: "y"}]}}
extern "C" __global__ void rows_of_a_view(const float* x, float* y, int n) {
  y[64 * blockIdx.x + threadIdx.x] = x[128 * blockIdx.x + threadIdx.x];
}
