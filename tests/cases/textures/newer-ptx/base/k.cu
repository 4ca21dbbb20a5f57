
extern "C" __global__ void shift(cudaTextureObject_t image, float* out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < w && y < h) out[y * w + x] = tex2D<float>(image, x + 0.5f + 0.25f, y + 0.5f + 0.5f);
}
