#include <math.h>

// Computes the same as the kernel, in floats. Both tensors are in-out there, and here.
void rms_norm_ref(float* input, float* residual, const float* weight, float epsilon, int tokens, int hidden)
{
    for (int t = 0; t < tokens; ++t, input += hidden, residual += hidden) {
        double sum = 0;
        for (int i = 0; i < hidden; ++i) {
            residual[i] += input[i];
            sum += (double)residual[i] * residual[i];
        }
        const float scale = (float)(1 / sqrt(sum / hidden + epsilon));
        for (int i = 0; i < hidden; ++i) input[i] = residual[i] * scale * weight[i];
    }
}
