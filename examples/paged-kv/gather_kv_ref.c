#include <stdint.h>
#include <string.h>

void gather_kv_ref(const float* cache, const int32_t* pages, const int32_t* cu_seqlens, float* out, int sequences,
                   int pages_each, int page, int row)
{
    for (int s = 0; s < sequences; ++s)
        for (int t = 0; t < cu_seqlens[s + 1] - cu_seqlens[s]; ++t) {
            const int64_t at = (int64_t)pages[s * pages_each + t / page] * page + t % page;
            memcpy(out + (int64_t)(cu_seqlens[s] + t) * row, cache + at * row, sizeof(float) * row);
        }
}
