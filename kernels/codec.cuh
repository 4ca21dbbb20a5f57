// Decodes 8-bit codes to f16. The result is the code's own value, without its scale. These values
// are exact in f16 (11 significant bits), and a scale that is common to a whole head can be
// multiplied in later, in f32, once per score or per output instead of once per element.
#pragma once
#include <cuda_fp8.h>
#include "common.cuh"

enum CodecId {
    CODEC_E4M3 = 0,       // x = e4m3(code) * scale,                  scale = amax / 448
    CODEC_OFFSET_U8 = 1,  // x = (code - 128) / 127 * 448 * scale,    scale = amax / 448
};

// The factor of a decoded value, in addition to the scale that the caller was given.
template <int ID>
constexpr float CODEC_UNIT = ID == CODEC_OFFSET_U8 ? 448.0f / 127.0f : 1.0f;

// Decodes the two codes in the low 16 bits of `codes`, the lowest byte first.
template <int ID>
__device__ __forceinline__ __half2 decode_pair(uint32_t codes)
{
    if constexpr (ID == CODEC_E4M3) {
        // One instruction on sm_89 and later.
        return __half2(__nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(codes), __NV_E4M3));
    } else {
        // f16 0x6400 is 1024 and its last bit weighs 1, so 0x64uu is 1024 + u. Bytes: u0 64 u1 64.
        const uint32_t biased = __byte_perm(codes, 0x00006400u, 0x5150);
        const __half2 value = *reinterpret_cast<const __half2*>(&biased);
        return __hsub2(value, __float2half2_rn(1024.0f + 128.0f));
    }
}

// Decodes one chunk of 16 codes to 16 halves at `destination` (shared memory, 16-byte aligned).
template <int ID>
__device__ __forceinline__ void decode_chunk(__half* destination, uint4 codes)
{
    const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
    __align__(16) __half2 values[8];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        values[2 * i] = decode_pair<ID>(words[i] & 0xffffu);
        values[2 * i + 1] = decode_pair<ID>(words[i] >> 16);
    }
    const uint4* packed = reinterpret_cast<const uint4*>(values);
    reinterpret_cast<uint4*>(destination)[0] = packed[0];
    reinterpret_cast<uint4*>(destination)[1] = packed[1];
}
