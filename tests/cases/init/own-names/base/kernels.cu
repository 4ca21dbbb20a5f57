// Sizes on the host that are defined by themselves, or by each other, as PyTorch's extensions have them:
// `out = cat(zeros, out)`.
__global__ void negate(float *y, const float *x, int length)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < length)
        y[i] = -x[i];
}

void launch_by_itself(float *y, const float *x, int length)
{
    int blocks = length + 127;
    blocks = (blocks - blocks % 128) / 128;
    negate<<<blocks, 128>>>(y, x, length);
}

__global__ void twice(float *y, const float *x, int length)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < length)
        y[i] = 2 * x[i];
}

void launch_by_each_other(float *y, const float *x, int length)
{
    int even = 1;
    int odd = even + even + even + even;
    even = odd + odd + odd + odd;
    twice<<<even, 128>>>(y, x, length);
}
