void call(const float* x, float* y, int batch, int channels)
{
    const int block_size = 128;
    // A comment with <<<1, 2>>>(of no launch).
    int blocks = (batch * channels + block_size - 1) / block_size;
    spread<<<blocks, block_size>>>(x, y, batch * channels);
}
