#pragma once
#include <device_launch_parameters.h>
extern "C" __device__ __device_builtin__ void __syncthreads();
extern "C" __device__ __device_builtin__ int printf(const char*, ...);
extern "C" __device__ __device_builtin__ void __assertfail(const void*, const void*, unsigned, const void*, unsigned long);
#define assert(expression) \
    ((expression) ? static_cast<void>(0) : __assertfail(#expression, __FILE__, __LINE__, __PRETTY_FUNCTION__, 1))
extern "C" __device__ __device_builtin__ int __iAtomicAdd(int*, int);
static __device__ __forceinline__ int atomicAdd(int* address, int value) { return __iAtomicAdd(address, value); }
