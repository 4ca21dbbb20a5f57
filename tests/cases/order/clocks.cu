// Outputs that depend on elapsed time.
// Attempted: the clock of the second launch was twice as fast, so a limit that neither passes was not seen, nor low bits of
// a difference. Stopped: two launches, with clocks that are slower than any instruction alone, and not even.
//@ tensors: {x: {type: f32, shape: [256]}, "y": {role: out, type: f32, shape: [256]}, t: {role: scratch, type: i64, shape: [256], fill: zeros}}
//@ args: [{tensor: x}, {tensor: "y"}, {tensor: t}]
//@ seeds: 1
#define ARGS const float* x, float* y, long long* t
#define I const int i = blockIdx.x * 64 + threadIdx.x
#define TIMER(v) long long v; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(v) :: "memory")

extern "C" __global__ void beyond_a_limit(ARGS) {
  I;
  const long long from = clock64();  // ~ machine_dependence
  float v = x[i];
  __syncthreads();
  y[i] = clock64() - from > 1000 ? 0.0f : v;
}

extern "C" __global__ void below_a_limit(ARGS) {
  I;
  const int from = clock();  // ~ machine_dependence
  float v = x[i];
  __syncthreads();
  y[i] = clock() - from < 200 ? v : v + 1.0f;
}

extern "C" __global__ void elapsed(ARGS) {
  I;
  const long long from = clock64();  // ~ machine_dependence
  float v = x[i];
  __syncthreads();
  y[i] = v + (clock64() - from > 5000 ? (clock64() - from) : 0);
}

extern "C" __global__ void parity(ARGS) {
  I;
  const long long from = clock64();  // ~ machine_dependence
  __syncthreads();
  const long long took = clock64() - from;
  y[i] = took % 2 == t[i] ? x[i] : x[i] + 0.0f * t[i] + (took & 2 ? 0.0f : 0.5f) * (took > 100);
}

extern "C" __global__ void nanoseconds(ARGS) {
  I;
  TIMER(from);  // ~ machine_dependence
  const float v = x[i];
  __nanosleep(100);
  TIMER(to);
  y[i] = to - from > 500 ? v * 2 : v;
}

extern "C" __global__ void sleeps(ARGS) {
  I;
  TIMER(from);  // ~ machine_dependence
  int turns = 0;
  for (;; ++turns) { TIMER(now); if (now - from >= 20000) break; __nanosleep(1000); }
  y[i] = turns > 100 ? x[i] : 0.0f;
}

extern "C" __global__ void slower_block(ARGS) {
  I;
  __shared__ long long took[2];
  const long long from = clock64();  // ~ machine_dependence
  float v = x[i];
  __syncwarp();
  if (threadIdx.x % 32 == 0) took[threadIdx.x / 32] = clock64() - from;
  __syncthreads();
  y[i] = took[0] == took[1] ? v : 0.0f;
}

extern "C" __global__ void second_counter(ARGS) {
  I;
  unsigned low; asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(low));  // ~ machine_dependence
  y[i] = low < 100000 ? x[i] : 0.0f;
}

// Honest: a wait until the clock has passed.
extern "C" __global__ void waits(ARGS) {
  I;
  const long long from = clock64();
  while (clock64() - from < 20000) ;
  y[i] = x[i];
}

// Honest: a limit that gives up waiting, and never has to.
extern "C" __global__ void gives_up(ARGS) {
  I;
  if (threadIdx.x == 0) atomicAdd((unsigned long long*)t, 1ull);
  bool late = false;
  if (threadIdx.x == 0) {
    const long long from = clock64();
    while (*(volatile long long*)t < gridDim.x)
      if (clock64() - from > 2000000000ll) { late = true; break; }
  }
  y[i] = late ? 0.0f : x[i];
}

// Honest: times in memory that is no output.
extern "C" __global__ void statistics(ARGS) {
  I;
  const long long from = clock64();
  y[i] = x[i];
  __syncthreads();
  t[i] = clock64() - from;
}

// Honest: a lock that waits for as long as the clock says.
extern "C" __global__ void backoff(ARGS) {
  I;
  if (threadIdx.x == 0) {
    unsigned wait = 20;
    while (atomicCAS((unsigned long long*)t, 0ull, 1ull) != 0) {
      __nanosleep(wait + (clock() & 15));
      wait = wait < 1000 ? wait * 2 : wait;
    }
    __threadfence();
    t[1] += 1;
    __threadfence();
    atomicExch((unsigned long long*)t, 0ull);
  }
  y[i] = x[i];
}

// Honest: a clock that only ever grows.
extern "C" __global__ void grows(ARGS) {
  I;
  long long last = clock64();
  bool grew = true;
  for (int n = 0; n < 50; ++n) { const long long now = clock64(); grew &= now > last; last = now; }
  y[i] = grew ? x[i] : 0.0f;
}
