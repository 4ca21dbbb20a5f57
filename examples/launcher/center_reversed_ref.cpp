// y[r,c] = x[r, columns - 1 - c] - mean of row r. Arguments: inputs, outputs, then dimensions.
#include <cstdint>

extern "C" void center_reversed_ref(const float* x, float* y, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; ++r) {
        double sum = 0.0;
        for (int64_t c = 0; c < columns; ++c) sum += x[r * columns + c];
        for (int64_t c = 0; c < columns; ++c)
            y[r * columns + c] = float(x[r * columns + columns - 1 - c] - sum / columns);
    }
}
