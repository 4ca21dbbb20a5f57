// Mean of each ragged sequence. Arguments: inputs, outputs, then dimensions.
#include <cstdint>

extern "C" void ragged_mean_ref(const float* tokens, const int32_t* cu_seqlens, float* means, int64_t sequences, int64_t width)
{
    for (int64_t s = 0; s < sequences; ++s) {
        const int64_t begin = cu_seqlens[s], end = cu_seqlens[s + 1];
        for (int64_t c = 0; c < width; ++c) {
            double sum = 0.0;
            for (int64_t token = begin; token < end; ++token) sum += tokens[token * width + c];
            means[s * width + c] = end > begin ? float(sum / (end - begin)) : 0.0f;
        }
    }
}
