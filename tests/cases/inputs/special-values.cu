// Faults that ordinary random numbers do not show. Each kernel is right on them, and the one after it on all numbers.

//@ gates: {max_err: 0}
//@ tensors: {x: {type: f32, shape: [256], fill: {uniform: {low: -1, high: 1, special: {nan: 0.02}}}}, y: {role: out, type: f32, shape: [256]}}
//@ reference: {unary: {x: x, out: "y", op: neg}}
extern "C" __global__ void loses_nan(const float* x, float* y, int n) {  // ! non-finite not-a-number
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = -fminf(x[i], 1.0f);
}

extern "C" __global__ void keeps_nan(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] > 1.0f ? -1.0f : -x[i];
}

//@ tensors: {x: {type: f32, shape: [256], fill: {normal: {special: {inf: 0.05}}}}, y: {role: out, type: f32, shape: [256]}}
//@ reference: {unary: {x: x, out: "y", op: relu}}
extern "C" __global__ void relu_by_a_factor(const float* x, float* y, int n) {  // ! non-finite not-a-number
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] * (x[i] > 0.0f ? 1.0f : 0.0f);
}

//@ tensors: {x: {type: f32, shape: [256], fill: {normal: {special: {inf: 0.05}}}}, y: {role: out, type: f32, shape: [256]}}
//@ reference: {unary: {x: x, out: "y", op: relu}}
extern "C" __global__ void relu_by_a_choice(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] > 0.0f ? x[i] : 0.0f;
}

//@ tensors: {x: {type: f32, shape: [256], fill: {normal: {special: {denormal: 0.05}}}}, y: {role: out, type: f32, shape: [256]}}
//@ reference: {binary: {a: x, b: x, out: "y", op: add}}
//@ flags: [-ftz=true]
extern "C" __global__ void flushes(const float* x, float* y, int n) {  // ! beyond-limit
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] * 2.0f;
}

//@ tensors: {x: {type: f32, shape: [256], fill: {normal: {special: {denormal: 0.05}}}}, y: {role: out, type: f32, shape: [256]}}
//@ reference: {binary: {a: x, b: x, out: "y", op: add}}
extern "C" __global__ void keeps_denormal(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] * 2.0f;
}

//@ tensors: {x: {type: f32, shape: [16, 64], fill: {normal: {special: {ties: 0.2}}}}, y: {role: out, type: i32, shape: [16]}}
//@ args: [{tensor: x}, {tensor: "y"}, {i32: 64}]
//@ launch: {grid: [1], block: [16]}
//@ reference: {user: {source: special-values.cpp, function: first_of_the_largest, args: [{tensor: x}, {tensor: "y"}]}}
extern "C" __global__ void last_of_the_largest(const float* x, int* y, int n) {  // ! beyond-limit
  int at = 0;
  for (int i = 1; i < n; i++)
    if (x[threadIdx.x * n + i] >= x[threadIdx.x * n + at]) at = i;
  y[threadIdx.x] = at;
}

//@ tensors: {x: {type: f32, shape: [16, 64], fill: {normal: {special: {ties: 0.2}}}}, y: {role: out, type: i32, shape: [16]}}
//@ args: [{tensor: x}, {tensor: "y"}, {i32: 64}]
//@ launch: {grid: [1], block: [16]}
//@ reference: {user: {source: special-values.cpp, function: first_of_the_largest, args: [{tensor: x}, {tensor: "y"}]}}
extern "C" __global__ void first_of_the_largest(const float* x, int* y, int n) {
  int at = 0;
  for (int i = 1; i < n; i++)
    if (x[threadIdx.x * n + i] > x[threadIdx.x * n + at]) at = i;
  y[threadIdx.x] = at;
}

//@ tensors: {x: {type: f32, shape: [32, 2], fill: {normal: {special: {equal_rows: 0.1}}}}, y: {role: out, type: f32, shape: [32, 2]}}
//@ args: [{tensor: x}, {tensor: "y"}, {i32: 32}]
//@ launch: {grid: [1], block: [32]}
//@ reference: {user: {source: special-values.cpp, function: sorted_rows, args: [{tensor: x}, {tensor: "y"}]}}
extern "C" __global__ void equal_rows_to_one_place(const float* x, float* y, int n) {  // ! non-finite not-a-number unwritten
  const float own = x[2 * threadIdx.x];
  int rank = 0;
  for (int i = 0; i < n; i++) rank += x[2 * i] < own;
  y[2 * rank] = own;
  y[2 * rank + 1] = x[2 * threadIdx.x + 1];
}

//@ tensors: {x: {type: f32, shape: [32, 2], fill: {normal: {special: {equal_rows: 0.1}}}}, y: {role: out, type: f32, shape: [32, 2]}}
//@ args: [{tensor: x}, {tensor: "y"}, {i32: 32}]
//@ launch: {grid: [1], block: [32]}
//@ reference: {user: {source: special-values.cpp, function: sorted_rows, args: [{tensor: x}, {tensor: "y"}]}}
extern "C" __global__ void equal_rows_side_by_side(const float* x, float* y, int n) {
  const float own = x[2 * threadIdx.x];
  int rank = 0;
  for (int i = 0; i < n; i++) rank += x[2 * i] < own || (x[2 * i] == own && i < threadIdx.x);
  y[2 * rank] = own;
  y[2 * rank + 1] = x[2 * threadIdx.x + 1];
}

// `values` with infinities: a row that a mask has emptied.
//@ tensors: {x: {type: f32, shape: [2, 3], fill: {values: ["-.inf", "-.inf", "-.inf", 1, ".nan", ".inf"]}}, y: {role: out, type: f32, shape: [2]}}
//@ args: [{tensor: x}, {tensor: "y"}, {i32: 3}]
//@ launch: {grid: [1], block: [2]}
//@ reference: {reduce: {x: x, out: "y", op: max, axes: [1]}}
extern "C" __global__ void starts_at_the_least_number(const float* x, float* y, int n) {  // ! non-finite not-a-number
  float most = -3.402823466e38f;
  for (int i = 0; i < n; i++) {
    const float value = x[threadIdx.x * n + i];
    if (!(value <= most)) most = value == value ? value : value + most;
    if (most != most) break;
  }
  y[threadIdx.x] = most;
}

//@ tensors: {x: {type: f32, shape: [2, 3], fill: {values: ["-.inf", "-.inf", "-.inf", 1, ".nan", ".inf"]}}, y: {role: out, type: f32, shape: [2]}}
//@ args: [{tensor: x}, {tensor: "y"}, {i32: 3}]
//@ launch: {grid: [1], block: [2]}
//@ reference: {reduce: {x: x, out: "y", op: max, axes: [1]}}
extern "C" __global__ void starts_at_the_first(const float* x, float* y, int n) {
  float most = x[threadIdx.x * n];
  for (int i = 1; i < n; i++) {
    const float value = x[threadIdx.x * n + i];
    if (!(value <= most)) most = value;
    if (most != most) break;
  }
  y[threadIdx.x] = most;
}
