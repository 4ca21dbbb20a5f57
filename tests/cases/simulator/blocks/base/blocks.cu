
#include <cuda_fp16.h>
struct block_q4_0 { __half d; unsigned char qs[16]; };
struct block_q8_1 { __half d, s; signed char qs[32]; };

extern "C" __global__ void mul_vec(const block_q4_0* w, const block_q8_1* x, float* y, int blocks)
{
    float sum = 0;
    for (int b = 0; b < blocks; ++b) {
        const block_q4_0* a = w + threadIdx.x * blocks + b;
        int dot = 0;
        for (int i = 0; i < 16; ++i)
            dot += (a->qs[i] & 15) * x[b].qs[i] + (a->qs[i] >> 4) * x[b].qs[i + 16];
        sum += __half2float(a->d) * (dot * __half2float(x[b].d) - 8 * __half2float(x[b].s));
    }
    y[threadIdx.x] = sum;
}

struct from { float a; short n[2]; };
struct to { short n[2]; float a; };

extern "C" __global__ void turn(const from* x, to* y)
{
    y[threadIdx.x] = {{x[threadIdx.x].n[0], x[threadIdx.x].n[1]}, -x[threadIdx.x].a};
}
