// y = W x with W already dequantised. Arguments: inputs, outputs, then dimensions.
#include <cstdint>

extern "C" void int8_matvec_ref(const float* weights, const float* x, float* y, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; ++r) {
        double sum = 0.0;
        for (int64_t c = 0; c < columns; ++c) sum += double(weights[r * columns + c]) * x[c];
        y[r] = float(sum);
    }
}
