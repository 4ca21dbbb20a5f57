// One warp's matrix product in registers: mma.sync.m16n8k16 on f16 with f32 sums, and ldmatrix, which
// fills its operands from shared memory.
//
// Who holds what (PTX ISA, "Matrix Fragments for mma.m16n8k16"), with g = lane / 4 and t = lane % 4:
//
//   A, 16 x 16   a[0]: row g,      columns 2t, 2t+1     a[2]: the same rows, columns + 8
//                a[1]: row g + 8,  columns 2t, 2t+1     a[3]
//   B, 16 x 8    b[0]: rows 2t, 2t+1, column g          b[1]: rows + 8
//   C, 16 x 8    c[0], c[1]: row g, columns 2t, 2t+1    c[2], c[3]: row g + 8
//
// Two neighbouring C tiles hold, lane by lane, just what one A tile needs: the scores of one product
// become the weights of the next without leaving their registers (FlashAttention-2, section 3.3).
#pragma once
#include "common.cuh"

constexpr int MMA_M = 16;
constexpr int MMA_N = 8;
constexpr int MMA_K = 16;

// Adds A B to C.
__device__ __forceinline__ void mma_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Loads four 8 x 8 matrices of halves. Lane l names row l % 8 of matrix l / 8: 16 bytes at `row`.
// Register i of lane l then has elements 2t and 2t + 1 of row g of matrix i.
__device__ __forceinline__ void ldmatrix(uint32_t (&to)[4], unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(row) : "memory");
}

// Loads the matrices transposed: elements (2t, g) and (2t + 1, g) of matrix i.
__device__ __forceinline__ void ldmatrix_transposed(uint32_t (&to)[4], unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(row) : "memory");
}

// Packs two floats as two halves, the first in the low bits.
__device__ __forceinline__ uint32_t pack_halves(float low, float high)
{
    const __half2 both = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&both);
}

// Packs two neighbouring C tiles as the A tile of the next product.
__device__ __forceinline__ void pack_weights(uint32_t (&a)[4], const float (&left)[4], const float (&right)[4])
{
    a[0] = pack_halves(left[0], left[1]);
    a[1] = pack_halves(left[2], left[3]);
    a[2] = pack_halves(right[0], right[1]);
    a[3] = pack_halves(right[2], right[3]);
}

// Returns the place of element (row, column) of a tile of halves in shared memory, in bytes from
// its start. column is a multiple of 8, for the 16 bytes that one lane of ldmatrix names. Eight
// consecutive rows at one column must be in different banks. Either each row is 16 bytes longer
// than its data, or chunk c of row r, of 16 bytes, is at c XOR (r mod 8), which costs no memory.
template <bool SWIZZLED, int COLUMNS>
struct HalfTile {
    static constexpr int ROW_BYTES = 2 * COLUMNS + (SWIZZLED ? 0 : CHUNK_BYTES);

    static __device__ __forceinline__ int offset(int row, int column)
    {
        const int chunk = column / 8;
        return row * ROW_BYTES + (SWIZZLED ? chunk ^ (row % 8) : chunk) * CHUNK_BYTES;
    }
};
