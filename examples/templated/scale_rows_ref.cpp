// y[r,c] = bias + gain[r] * x[r,c]. Arguments: inputs, outputs, scalars, then dimensions.
#include <cstdint>

extern "C" void scale_rows_ref(const float* x, const float* gain, float* y, float bias, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) y[r * columns + c] = bias + gain[r] * x[r * columns + c];
}
