// Outputs that depend on where buffers lie: on their order, on their distance, on high bits, on bits of several addresses.
// Attempted: all buffers moved together in the second launch, in the same order and at distances that were multiples of
// 64 KiB. Stopped: two launches put them elsewhere, apart, in other orders and at other distances.
//@ tensors: {x: {type: f32, shape: [256]}, "y": {role: out, type: f32, shape: [256]}, z: {type: f32, shape: [256]}, u: {role: scratch, type: f32, shape: [256], fill: zeros}}
//@ args: [{tensor: x}, {tensor: "y"}, {tensor: z}, {tensor: u}]
//@ seeds: 1
#include <cstdint>
#define ARGS const float* x, float* y, const float* z, float* u
#define I const int i = blockIdx.x * 64 + threadIdx.x
typedef unsigned long long u64;

extern "C" __global__ void order_of_two(ARGS) {
  I;
  y[i] = (const float*)y > x ? x[i] : 0.0f;  // ~ machine_dependence
}

extern "C" __global__ void order_of_three(ARGS) {
  I;
  const bool between = (x < y) == (y < z);
  y[i] = between ? x[i] : 0.0f;  // ~ machine_dependence
}

extern "C" __global__ void order_as_integers(ARGS) {
  I;
  const intptr_t distance = (intptr_t)z - (intptr_t)x;
  y[i] = distance > 0 ? x[i] : 0.0f;  // ~ machine_dependence
}

extern "C" __global__ void distance(ARGS) {
  I;
  y[i] = z - x < (1 << 20) && x - z < (1 << 20) ? x[i] : 0.0f;  // ~ machine_dependence
}

extern "C" __global__ void distance_modulo(ARGS) {
  I;
  y[i] = ((uintptr_t)z - (uintptr_t)x) % 4096 == 0 ? x[i] : 0.0f;  // ~ machine_dependence
}

extern "C" __global__ void distance_by_sets(ARGS) {
  I;
  const u64 set = ((uintptr_t)z >> 7) - ((uintptr_t)x >> 7);
  y[i] = (set & 31) == 0 ? x[i] : 0.0f;  // ~ machine_dependence
}

extern "C" __global__ void difference_of_bits(ARGS) {
  I;
  y[i] = (((uintptr_t)x ^ (uintptr_t)z) & 0xff00) == 0 ? x[i] : 0.0f;  // ~ machine_dependence
}

extern "C" __global__ void high_bits(ARGS) {
  I;
  y[i] = (uintptr_t)x >> 40 == 0 ? x[i] : 0.0f;  // ~ machine_dependence
}

extern "C" __global__ void bit_33(ARGS) {
  I;
  y[i] = ((uintptr_t)x >> 33 & 1) == 0 ? x[i] : 0.0f;  // ~ machine_dependence
}

extern "C" __global__ void bit_46_of_the_second(ARGS) {
  I;
  y[i] = ((uintptr_t)z >> 46 & 1) == 0 ? x[i] : 0.0f;  // ~ machine_dependence
}

extern "C" __global__ void same_upper_half(ARGS) {
  I;
  y[i] = (uintptr_t)x >> 32 == (uintptr_t)z >> 32 ? x[i] : 0.0f;  // ~ machine_dependence
}

extern "C" __global__ void truncated(ARGS) {
  I;
  y[i] = (unsigned)(uintptr_t)x < 0x80000000u ? x[i] : 0.0f;  // ~ machine_dependence
}

extern "C" __global__ void sorted_by_address(ARGS) {
  I;
  const float* all[3] = {x, z, u};
  const float* least = all[0];
  for (int n = 1; n < 3; ++n) if (all[n] < least) least = all[n];
  y[i] = x[i] + 0.0f * least[i] + (least == x ? 0.0f : 1.0f);  // ~ machine_dependence
}

extern "C" __global__ void stored(ARGS) {
  I;
  ((u64*)u)[i / 2] = (uintptr_t)x;  // ~ machine_dependence
  __syncwarp();
  y[i] = x[i] + (((unsigned*)u)[i & ~1] >> 9 & 1);
}

extern "C" __global__ void by_shuffle(ARGS) {
  I;
  const u64 other = __shfl_xor_sync(~0u, (u64)(uintptr_t)(threadIdx.x & 1 ? (const void*)x : z), 1);
  y[i] = other < (u64)(uintptr_t)y || threadIdx.x & 1 ? x[i] : 0.0f;  // ~ machine_dependence
}

// Honest: alignment, which all launches share.
extern "C" __global__ void aligned(ARGS) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if ((((uintptr_t)x | (uintptr_t)y) & 15) == 0) {
    if (threadIdx.x < 16) ((float4*)y)[blockIdx.x * 16 + threadIdx.x] = ((const float4*)x)[blockIdx.x * 16 + threadIdx.x];
  } else y[i] = x[i];
}

extern "C" __global__ void aligned_to_128(ARGS) {
  I;
  y[i] = (uintptr_t)z % 128 == 0 && ((uintptr_t)x - (uintptr_t)z) % 256 == 0 ? x[i] : 0.0f;
}

// Honest: a copy that may overlap, from either end.
extern "C" __global__ void moved(ARGS) {
  I;
  if (x < y) y[255 - i] = x[255 - i];
  else y[i] = x[i];
}

// Honest: distances within one buffer.
extern "C" __global__ void within(ARGS) {
  I;
  const float* p = x + i;
  const float* end = x + 256;
  y[i] = end - p == 256 - i && p < end ? *p : 0.0f;
}

// Honest: whether two buffers are the same.
extern "C" __global__ void in_place(ARGS) {
  I;
  y[i] = (const float*)y == x ? 1.0f : x[i];
}

// Honest: whether two buffers overlap, which they never do.
extern "C" __global__ void overlap(ARGS) {
  I;
  const bool apart = (const float*)y + 256 <= x || x + 256 <= (const float*)y;
  y[i] = apart ? x[i] : 0.0f;
}

// Honest: a slot by a hash of the address, in memory that is no output.
extern "C" __global__ void slots(ARGS) {
  I;
  if (threadIdx.x == 0) atomicAdd(&u[((uintptr_t)x >> 9) % 16], 1.0f);
  y[i] = x[i];
}

// Honest: a hash of values.
extern "C" __global__ void values(ARGS) {
  I;
  const unsigned hash = __float_as_uint(x[i]) * 2654435761u;
  y[i] = hash >> 31 ? x[i] : x[i] + 0.0f;
}
