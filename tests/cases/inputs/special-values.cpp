#include <algorithm>
#include <array>
#include <cstdint>

extern "C" void first_of_the_largest(const float* x, int32_t* y) {
  for (int row = 0; row < 16; row++) y[row] = std::max_element(x + 64 * row, x + 64 * (row + 1)) - (x + 64 * row);
}

extern "C" void sorted_rows(const float* x, float* y) {
  std::array<std::array<float, 2>, 32> rows;
  for (int row = 0; row < 32; row++) rows[row] = {x[2 * row], x[2 * row + 1]};
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a[0] < b[0]; });
  for (int row = 0; row < 32; row++) std::copy(rows[row].begin(), rows[row].end(), y + 2 * row);
}
