// Copies of tiles between global and shared memory.
//
// A tile in global memory is `rows` consecutive rows of HEAD_DIM elements, without gaps. In shared
// memory a tile of halves has rows of TILE_STRIDE: 8 halves (16 bytes) of padding put eight
// consecutive rows into different banks, so that ldmatrix and 16-byte reads down a column do not
// conflict. Rows at and past `valid_rows` do not exist in global memory and are filled.
#pragma once
#include "codec.cuh"

constexpr int HEAD_DIM = HEAD_SIZE;
constexpr int TILE_STRIDE = HEAD_DIM + 8;  // halves

// Calls body(row, column) for each chunk of `CHUNK` elements of a [ROWS, HEAD_DIM] tile that falls
// to this one of THREADS threads. A thread always gets the same chunks.
template <int ROWS, int CHUNK, int THREADS, typename Body>
__device__ __forceinline__ void for_each_chunk(int thread, Body body)
{
    constexpr int PER_ROW = HEAD_DIM / CHUNK;
    static_assert(ROWS * PER_ROW % THREADS == 0, "every thread gets the same number of chunks");
    #pragma unroll
    for (int i = 0; i < ROWS * PER_ROW / THREADS; ++i) {
        const int chunk = thread + i * THREADS;
        body(chunk / PER_ROW, chunk % PER_ROW * CHUNK);
    }
}

// Copies codes in global memory to halves in shared memory, through registers, 16 codes per load.
// All loads are issued before the first is used. A missing row has the values of code 0. They are
// finite, which is enough, because their results are masked (keys), weighed with 0 (values) or
// never stored (queries).
template <int ID, int ROWS, int THREADS>
__device__ __forceinline__ void load_codes(__half* tile, const uint8_t* codes, int valid_rows, int thread)
{
    constexpr int CHUNKS = ROWS * HEAD_DIM / CHUNK_BYTES / THREADS;
    uint4 loaded[CHUNKS];
    int i = 0;
    for_each_chunk<ROWS, CHUNK_BYTES, THREADS>(thread, [&](int row, int column) {
        loaded[i++] = row < valid_rows
            ? __ldg(reinterpret_cast<const uint4*>(codes + row * HEAD_DIM + column))
            : make_uint4(0, 0, 0, 0);
    });
    i = 0;
    for_each_chunk<ROWS, CHUNK_BYTES, THREADS>(thread, [&](int row, int column) {
        decode_chunk<ID>(tile + row * TILE_STRIDE + column, loaded[i++]);
    });
}

// Copies in the plain way: one code per load, one half per store.
template <int ID, int ROWS, int THREADS>
__device__ __forceinline__ void load_codes_one_by_one(__half* tile, const uint8_t* codes, int valid_rows, int thread)
{
    for_each_chunk<ROWS, 1, THREADS>(thread, [&](int row, int column) {
        const uint32_t code = row < valid_rows ? __ldg(codes + row * HEAD_DIM + column) : 0;
        tile[row * TILE_STRIDE + column] = __low2half(decode_pair<ID>(code));
    });
}

// Copies codes in global memory to the same codes in shared memory (`raw`: [ROWS, HEAD_DIM] bytes,
// no padding), asynchronously. The caller commits and waits.
template <int ROWS, int THREADS>
__device__ __forceinline__ void start_copy_of_codes(uint8_t* raw, const uint8_t* codes, int valid_rows, int thread)
{
    for_each_chunk<ROWS, CHUNK_BYTES, THREADS>(thread, [&](int row, int column) {
        const bool valid = row < valid_rows;
        cp_async_chunk(raw + row * HEAD_DIM + column, codes + (valid ? row : 0) * HEAD_DIM + column, valid);
    });
}

// Decodes codes in shared memory to halves in shared memory. Each thread decodes exactly the chunks
// that it copied itself, so its own cp_async_wait before this call is enough, without a barrier.
template <int ID, int ROWS, int THREADS>
__device__ __forceinline__ void decode_copied_codes(__half* tile, const uint8_t* raw, int thread)
{
    for_each_chunk<ROWS, CHUNK_BYTES, THREADS>(thread, [&](int row, int column) {
        decode_chunk<ID>(tile + row * TILE_STRIDE + column,
                            *reinterpret_cast<const uint4*>(raw + row * HEAD_DIM + column));
    });
}

// The word that has this number of halves: 2, 4 or 8.
template <int HALVES> struct HalvesWord;
template <> struct HalvesWord<2> { using Type = unsigned; };
template <> struct HalvesWord<4> { using Type = uint2; };
template <> struct HalvesWord<8> { using Type = uint4; };

// Copies halves in global memory to halves in shared memory, VEC of them per load. A missing row is filled with zeros.
template <int ROWS, int VEC, int THREADS>
__device__ __forceinline__ void load_halves(__half* tile, const __half* halves, int valid_rows, int thread)
{
    using Word = typename HalvesWord<VEC>::Type;
    for_each_chunk<ROWS, VEC, THREADS>(thread, [&](int row, int column) {
        *reinterpret_cast<Word*>(tile + row * TILE_STRIDE + column) = row < valid_rows
            ? __ldg(reinterpret_cast<const Word*>(halves + row * HEAD_DIM + column))
            : Word{};
    });
}
