extern "C" __global__ void plain(int* o) { *o = 1; }
template <typename T, int N> __global__ void fill(T* o) { o[threadIdx.x] = N; }
namespace ns {
__global__ void inside(int* o) { *o = 2; }
namespace { __global__ void hidden(int* o) { *o = 3; } }
void use() { hidden<<<1, 1>>>(nullptr); }
template <int A, int B = A + 1> __global__ void twice(float* o) { *o = A * B; }
struct Half { short bits; };
using half = Half;
template <typename T, int N> __global__ void norm(T* out, const T* in) { out[threadIdx.x % N] = in[0]; }
}
static __global__ void local(int* o) { *o = 4; }
void use() { local<<<1, 1>>>(nullptr); }
__global__ void over(float* o) { *o = 1; }
__global__ void over(double* o) { *o = 1; }
