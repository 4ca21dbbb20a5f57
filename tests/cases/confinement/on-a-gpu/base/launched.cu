__global__ void twice(const float* x, float* y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i] + x[i];
}

extern "C" int launch(const float* x, float* y, cudaStream_t stream)
{
    twice<<<4, 64, 0, stream>>>(x, y);
    return cudaGetLastError();
}
