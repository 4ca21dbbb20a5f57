extern "C" __global__ void sub(const float* a, const float* b, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = a[i] - b[i];
}
