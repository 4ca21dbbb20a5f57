// Mean of each sequence of a ragged batch. Sequences lie end to end; sequence s is tokens
// [cu_seqlens[s], cu_seqlens[s + 1]). An empty sequence has mean 0.
//
// tokens   f32 [total, D] row-major    cu_seqlens   i32 [sequences + 1], ascending from 0 to total
// means    f32 [sequences, D]
// Launch: grid [sequences, ceil_div(D, 128)], block [128]: a thread per column
extern "C" __global__ void ragged_mean(const float* tokens, const int* cu_seqlens, float* means, int width)
{
    const int sequence = blockIdx.x;
    const int column = blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= width) return;
    const int begin = cu_seqlens[sequence], end = cu_seqlens[sequence + 1];
    float sum = 0.0f, excess = 0.0f;  // compensated: `excess` is what rounding has added to `sum`
    for (int token = begin; token < end; ++token) {
        const float term = tokens[(long long)token * width + column] - excess;
        const float next = sum + term;
        excess = (next - sum) - term;
        sum = next;
    }
    means[(long long)sequence * width + column] = end > begin ? sum / float(end - begin) : 0.0f;
}
