// Outputs of which the order does not matter: the kernels give the elements of a set in an order of their own, and the
// reference in another. Every second kernel is right.

//@ gates: {max_err: 0}
//@ tensors: {x: {type: i32, shape: [4, 64], fill: permutation}, y: {role: out, type: i32, shape: [4, 8], compare: {unordered: 1}}}
//@ args: [{tensor: x}, {tensor: "y"}]
//@ launch: {grid: [1], block: [4]}
//@ reference: {user: {source: unordered.cpp, function: largest, args: [{tensor: x}, {tensor: "y"}]}}
extern "C" __global__ void largest_with_one_twice(const int* x, int* y) {  // ! beyond-limit
  const int* row = x + 64 * threadIdx.x;
  int* out = y + 8 * threadIdx.x;
  int bound = 1 << 30;
  for (int k = 7; k >= 0; k--) {
    int most = -1;
    for (int i = 0; i < 64; i++)
      if (row[i] < bound && row[i] > most) most = row[i];
    out[k] = most;
    if (k != 4) bound = most;
  }
}

extern "C" __global__ void largest_in_ascending_order(const int* x, int* y) {
  const int* row = x + 64 * threadIdx.x;
  int* out = y + 8 * threadIdx.x;
  int bound = 1 << 30;
  for (int k = 7; k >= 0; k--) {
    int most = -1;
    for (int i = 0; i < 64; i++)
      if (row[i] < bound && row[i] > most) most = row[i];
    out[k] = most;
    bound = most;
  }
}

// A hash table of keys and values: a slot is a slice, and stays one.
//@ tensors: {x: {type: i32, shape: [32], fill: permutation}, y: {role: out, type: i32, shape: [64, 2], compare: {unordered: 0}}}
//@ launch: {grid: [1], block: [1]}
//@ reference: {user: {source: unordered.cpp, function: table, args: [{tensor: x}, {tensor: "y"}]}}
extern "C" __global__ void table_with_a_lost_value(const int* x, int* y) {  // ! beyond-limit
  for (int i = 0; i < 128; i++) y[i] = -1;
  for (int i = 0; i < 32; i++) {
    int slot = x[i] * 37 % 64;
    while (y[2 * slot] >= 0) slot = (slot + 1) % 64;
    y[2 * slot] = x[i];
    y[2 * slot + 1] = i > 0 && x[i] > x[i - 1] ? i : 0;
  }
}

//@ tensors: {x: {type: i32, shape: [32], fill: permutation}, y: {role: out, type: i32, shape: [64, 2], compare: {unordered: 0}}}
//@ launch: {grid: [1], block: [1]}
//@ reference: {user: {source: unordered.cpp, function: table, args: [{tensor: x}, {tensor: "y"}]}}
extern "C" __global__ void table_by_another_hash(const int* x, int* y) {
  for (int i = 0; i < 128; i++) y[i] = -1;
  for (int i = 0; i < 32; i++) {
    int slot = x[i] * 37 % 64;
    while (y[2 * slot] >= 0) slot = (slot + 1) % 64;
    y[2 * slot] = x[i];
    y[2 * slot + 1] = i;
  }
}
