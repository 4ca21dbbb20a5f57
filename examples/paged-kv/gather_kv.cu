#include <cstdint>
#include <cuda_fp16.h>

// out [TOKENS, ROW] from cache [POOL, PAGE, ROW]: token t of sequence s lies in page pages[s, t / PAGE].
// Sequence s has tokens cu_seqlens[s] to cu_seqlens[s + 1] of out.
extern "C" __global__ void gather_kv(const half* cache, const int32_t* pages, const int32_t* cu_seqlens, half* out,
                                     int pages_each, int row)
{
    const int sequence = blockIdx.y, token = blockIdx.x;
    const int begin = cu_seqlens[sequence], end = cu_seqlens[sequence + 1];
    if (token >= end - begin) return;
    const int64_t page = pages[sequence * pages_each + token / PAGE];
    const auto* from = reinterpret_cast<const int4*>(cache + (page * PAGE + token % PAGE) * row);
    auto* to = reinterpret_cast<int4*>(out + int64_t(begin + token) * row);
    for (int i = threadIdx.x; i < row / 8; i += blockDim.x) to[i] = from[i];
}
