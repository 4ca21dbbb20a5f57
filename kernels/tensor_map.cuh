// Host code that describes a tensor to TMA. Only the driver can write such a description, so a kernel that
// takes one is launched by a function of its own source (a launcher in gates.yaml).
#pragma once
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

template <typename T> struct TensorMapType;
template <> struct TensorMapType<__half> { static constexpr CUtensorMapDataType value = CU_TENSOR_MAP_DATA_TYPE_FLOAT16; };
template <> struct TensorMapType<uint8_t> { static constexpr CUtensorMapDataType value = CU_TENSOR_MAP_DATA_TYPE_UINT8; };

// [heads, rows, 64] contiguous, copied in boxes of box_rows rows of one head, rows past a head's end as
// zeros; swizzled as wide as a row. Returns 0, or what the runtime or the driver answered.
template <typename T>
int describe_heads(CUtensorMap& map, const T* tensor, int heads, int rows, int box_rows)
{
    constexpr int COLUMNS = 64;
    constexpr cuuint64_t row_bytes = COLUMNS * sizeof(T);
    constexpr CUtensorMapSwizzle swizzle = row_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;

    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    const cudaError_t asked =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
    if (asked != cudaSuccess) return asked;
    if (found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;

    const cuuint64_t extents[3] = {COLUMNS, cuuint64_t(rows), cuuint64_t(heads)};
    const cuuint64_t strides[2] = {row_bytes, row_bytes * rows};  // of the second and third dimension
    const cuuint32_t box[3] = {COLUMNS, cuuint32_t(box_rows), 1};
    const cuuint32_t steps[3] = {1, 1, 1};
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry)(
        &map, TensorMapType<T>::value, 3, const_cast<T*>(tensor), extents, strides, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}
