// The stride of something that has no size.
struct Pages {
    const float *x;
    float *y;
    int page_offset, rows;
};
__global__ void paged(Pages pages)
{
    if (threadIdx.x < pages.rows) pages.y[threadIdx.x] = pages.x[pages.page_offset + threadIdx.x];
}
void launch_paged(Pages pages) { paged<<<1, 256>>>(pages); }

union Word {
    float real;
    int whole;
};
__global__ void by_union(Word word, float *y)
{
    *y = word.real;
}

__global__ void sized(const float *x, float *y, int n)
{
    extern __shared__ float row[];
    row[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < n) y[threadIdx.x] = row[n - 1 - threadIdx.x];
}
void launch_sized(const float *x, float *y, int n, int bytes) { sized<<<1, 256, bytes>>>(x, y, n); }
