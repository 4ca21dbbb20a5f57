//! Edits that make kernels slower and leave them right, each with the cause that has to be named for it; and edits
//! that do nothing, for which none may be.
//!
//! The labels say what was done to the source. They were written before the rules that find the causes.

/// `old` stands once in `file` and becomes `new`.
pub struct Edit {
    pub file: &'static str,
    pub old: &'static str,
    pub new: &'static str,
}

/// The comment behind the line that is the cause, in an edit that makes head.
pub const MARKER: &str = "// <- cause";

/// The evidence in which a cause can be seen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Machine code, what PTXAS says of it, and the launch.
    Code,
    /// The simulator's counters.
    Simulator,
    /// Counters of a GPU.
    Profile,
}

pub struct Regression {
    pub name: &'static str,
    /// A unit of fixtures/gates.yaml: `kernel/variant`.
    pub unit: &'static str,
    /// The base, compared with the repository's kernel.
    pub base: &'static [Edit],
    pub head: &'static [Edit],
    /// The class of the first cause. Its line is the marked one; an edit without a marker is one of the launch.
    pub class: &'static str,
    pub needs: Needs,
    /// The result as it truly is.
    pub reached: Reached,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The class, and the line within three.
    Cause,
    ClassAlone,
    /// Another class.
    Other(&'static str),
}

pub struct Harmless {
    pub name: &'static str,
    pub unit: &'static str,
    pub base: &'static [Edit],
    pub head: &'static [Edit],
    /// Whether the machine code is the same.
    pub same_code: bool,
    /// The class of everything reported: changes, and no cause of slowness.
    pub said: &'static str,
}

const fn edit(file: &'static str, old: &'static str, new: &'static str) -> Edit {
    Edit { file, old, new }
}

const GATES: &str = "gates.yaml";
const COMMON: &str = "kernels/common.cuh";
const CODEC: &str = "kernels/codec.cuh";
const ATTENTION: &str = "kernels/attention.cuh";
const REGISTER_SOFTMAX: &str = "kernels/register_softmax.cuh";
const GEMM: &str = "kernels/gemm.cu";
const SOFTMAX: &str = "kernels/softmax.cu";
const REDUCE: &str = "kernels/reduce.cu";
const SDPA_F16: &str = "kernels/sdpa_f16.cu";
const SDPA_FP8: &str = "kernels/sdpa_fp8.cu";
const STENCIL: &str = "small/stencil.cu";
const HISTOGRAM: &str = "small/histogram.cu";
const TRANSPOSE: &str = "small/transpose.cu";
const SPMV: &str = "small/spmv.cu";
const ROWS: &str = "small/rows.cu";

/// Every line below it has another number in head.
const fn lines_above(file: &'static str, first: &'static str, more: &'static str) -> Edit {
    edit(file, first, more)
}

/// Seen in the code, and its cause is named with its line.
const fn by_code(
    name: &'static str,
    unit: &'static str,
    class: &'static str,
    head: &'static [Edit],
) -> Regression {
    Regression {
        name,
        unit,
        base: &[],
        head,
        class,
        needs: Needs::Code,
        reached: Reached::Cause,
    }
}

/// The same, seen in what the simulator counts.
const fn by_counters(
    name: &'static str,
    unit: &'static str,
    class: &'static str,
    head: &'static [Edit],
) -> Regression {
    Regression {
        needs: Needs::Simulator,
        ..by_code(name, unit, class, head)
    }
}

pub const REGRESSIONS: &[Regression] = &[
    by_code("barrier in a loop", "gemm/default", "barrier-added", &[edit(
        GEMM,
        "        for (int i = threadIdx.x; i < TILE_K * TILE_N; i += THREADS) {\n",
        "        __syncthreads();  // <- cause\n        for (int i = threadIdx.x; i < TILE_K * TILE_N; i += THREADS) {\n",
    )]),
    by_code("barrier after every phase", "sdpa_f16/wmma", "barrier-added", &[
        edit(GATES, "SYNC_POLICY: 2", "SYNC_POLICY: 5"),
        edit(
            SDPA_F16,
            "    if constexpr (has_barrier(PHASE)) __syncthreads();\n    else",
            "    if constexpr (has_barrier(PHASE)) __syncthreads();  // <- cause\n    else",
        ),
    ]),
    by_code("unrolling lost", "gemm/default", "unroll-lost", &[edit(
        GEMM,
        "        #pragma unroll\n        for (int depth = 0; depth < TILE_K; ++depth) {\n",
        "        #pragma unroll 1\n        for (int depth = 0; depth < TILE_K; ++depth) {  // <- cause\n",
    )]),
    by_code("unrolling lost, lines moved", "spmv/default", "unroll-lost", &[
        lines_above(
            SPMV,
            "#include <cuda_runtime.h>\n",
            "//\n// Rows of at least 32 elements keep all\n// lanes of a warp at work.\n#include <cuda_runtime.h>\n",
        ),
        edit(
            SPMV,
            "    for (int i = begin + lane; i < end; i += 32)\n",
            "    #pragma unroll 1\n    for (int i = begin + lane; i < end; i += 32)  // <- cause\n",
        ),
    ]),
    by_code("tile loads of 4 bytes", "sdpa_f16/wmma", "vector-access-narrowed", &[edit(
        SDPA_F16,
        "        load_halves<BLOCK_N, VEC_WIDTH, THREADS>(shared.k, k + tile_start, seq_len - first_key, threadIdx.x);\n",
        "        load_halves<BLOCK_N, 2, THREADS>(shared.k, k + tile_start, seq_len - first_key, threadIdx.x);  // <- cause\n",
    )]),
    by_code("float4 read as four floats", "adam/default", "vector-access-narrowed", &[edit(
        ROWS,
        "    const float4 g4 = *reinterpret_cast<const float4*>(gradient + first);\n    float4 m4",
        "    const float4 g4 = make_float4(gradient[first], gradient[first + 1], gradient[first + 2], gradient[first + 3]);  // <- cause\n    float4 m4",
    )]),
    Regression {
        reached: Reached::Other("more-instructions"),
        ..by_code("half2 read as two halves", "sdpa_fp8/vec_pv", "vector-access-narrowed", &[edit(
            ATTENTION,
            "        if constexpr (PAIRED) return __half22float2(*reinterpret_cast<const __half2*>(value));\n",
            "        if constexpr (PAIRED) return make_float2(__half2float(value[0]), __half2float(value[1]));  // <- cause\n",
        )])
    },
    by_counters("a stretch of a row to each thread", "softmax/default", "coalescing-lost", &[edit(
        SOFTMAX,
        "    for (int j = threadIdx.x; j < columns; j += THREADS) maximum = fmaxf(maximum, in[j]);\n",
        "    const int stretch = ceil_div(columns, THREADS);\n    \
         for (int j = threadIdx.x * stretch; j < min(columns, int(threadIdx.x + 1) * stretch); ++j)\n        \
         maximum = fmaxf(maximum, in[j]);  // <- cause\n",
    )]),
    by_counters("a stretch of a sparse row to each lane", "spmv/default", "coalescing-lost", &[edit(
        SPMV,
        "    for (int i = begin + lane; i < end; i += 32)\n        sum += values[i] * x[columns[i]];\n",
        "    const int stretch = (end - begin + 31) / 32;\n    \
         for (int i = begin + lane * stretch; i < min(end, begin + (lane + 1) * stretch); ++i)\n        \
         sum += values[i] * x[columns[i]];  // <- cause\n",
    )]),
    by_counters("transposed without a tile", "transpose/default", "coalescing-lost", &[
        edit(
            TRANSPOSE,
            "        if (row < rows && column < columns) tile[i][threadIdx.x] = in[size_t(row) * columns + column];\n    }\n    __syncthreads();\n",
            "        if (row < rows && column < columns) out[size_t(column) * rows + row] = in[size_t(row) * columns + column];  // <- cause\n    }\n",
        ),
        edit(TRANSPOSE, "    __shared__ float tile[TILE][TILE + 1];\n", ""),
        edit(
            TRANSPOSE,
            "
    #pragma unroll
    for (int i = threadIdx.y; i < TILE; i += STEP) {
        const int column = first_column + i, row = first_row + threadIdx.x;
        if (row < rows && column < columns) out[size_t(column) * rows + row] = tile[threadIdx.x][i];
    }
",
            "",
        ),
    ]),
    by_counters("pad of a tile removed, stores", "gemm/default", "bank-conflicts", &[
        edit(GEMM, "float tile_a[TILE_K][TILE_M + 4];", "float tile_a[TILE_K][TILE_M];"),
        edit(
            GEMM,
            "a[size_t(first_row + row) * k + first_k + depth] : 0.0f;\n",
            "a[size_t(first_row + row) * k + first_k + depth] : 0.0f;  // <- cause\n",
        ),
    ]),
    by_counters("pad of a tile removed, loads", "transpose/default", "bank-conflicts", &[
        edit(TRANSPOSE, "float tile[TILE][TILE + 1];", "float tile[TILE][TILE];"),
        edit(TRANSPOSE, "= tile[threadIdx.x][i];\n", "= tile[threadIdx.x][i];  // <- cause\n"),
    ]),
    Regression {
        reached: Reached::ClassAlone,
        ..by_code("too many partial sums", "reduce/default", "occupancy-registers", &[
            edit(REDUCE, "constexpr int WAYS = 4;", "constexpr int WAYS = 32;"),
            edit(
                REDUCE,
                "partial[way] += in[j + way * THREADS];\n",
                "partial[way] += in[j + way * THREADS];  // <- cause\n",
            ),
            edit(
                REDUCE,
                "    const float sum = block_reduce<THREADS>((partial[0] + partial[1]) + (partial[2] + partial[3]), Sum{});\n",
                "    #pragma unroll\n    for (int way = 1; way < WAYS; ++way) partial[0] += partial[way];\n    const float sum = block_reduce<THREADS>(partial[0], Sum{});\n",
            ),
        ])
    },
    by_code("a buffer for the largest block", "dots/default", "occupancy-shared", &[edit(
        ROWS,
        "    __shared__ float parts[THREADS];\n",
        "    __shared__ float parts[8 * 1024];  // <- cause\n",
    )]),
    Regression {
        base: &[edit(GATES, "define: {BLOCKS: 64}", "define: {BLOCKS: 2112}")],
        ..by_code("more shared memory in the launch", "smooth/default", "occupancy-shared", &[edit(
            GATES,
            "launch: {grid: [BLOCKS], block: [128]}",
            "launch: {grid: [BLOCKS], block: [128], dynamic_shared: 32KiB}",
        )])
    },
    by_code("a bound that is too tight", "sdpa_f16/mma", "spills", &[edit(
        SDPA_F16,
        "extern \"C\" __global__ void __launch_bounds__(THREADS, 2)\n",
        "extern \"C\" __global__ void __launch_bounds__(THREADS, 5)  // <- cause\n",
    )]),
    Regression {
        base: &[edit(
            HISTOGRAM,
            "__global__ void __launch_bounds__(THREADS) tally(",
            "__global__ void __launch_bounds__(THREADS, 16) tally(",
        )],
        ..by_code("four columns to a thread", "tally/default", "spills", &[
            edit(
                HISTOGRAM,
                "    const int column = blockIdx.x * THREADS + threadIdx.x;\n",
                "    const int column = 4 * (blockIdx.x * THREADS + threadIdx.x);\n",
            ),
            edit(HISTOGRAM, "    int found[CLASSES] = {};\n", "    int found[CLASSES][4] = {};\n"),
            edit(
                HISTOGRAM,
                "        const int value = values[size_t(row) * columns + column];\n",
                "        const int4 value = *reinterpret_cast<const int4*>(values + size_t(row) * columns + column);\n",
            ),
            edit(
                HISTOGRAM,
                "        for (int c = 0; c < CLASSES; ++c) found[c] += value == c;\n",
                "        for (int c = 0; c < CLASSES; ++c) {\n            \
                 found[c][0] += value.x == c, found[c][1] += value.y == c;\n            \
                 found[c][2] += value.z == c, found[c][3] += value.w == c;  // <- cause\n        }\n",
            ),
            edit(
                HISTOGRAM,
                "    for (int c = 0; c < CLASSES; ++c) counts[size_t(c) * columns + column] = found[c];\n",
                "    for (int c = 0; c < CLASSES; ++c)\n        *reinterpret_cast<int4*>(counts + size_t(c) * columns + column) = make_int4(found[c][0], found[c][1], found[c][2], found[c][3]);\n",
            ),
            edit(
                GATES,
                "launch: {grid: [\"ceil_div(C, 128)\"], block: [128]}",
                "launch: {grid: [\"ceil_div(C, 512)\"], block: [128]}",
            ),
        ])
    },
    by_code("a patch indexed by a loop", "gemm/default", "local-array", &[edit(
        GEMM,
        "            #pragma unroll
            for (int i = 0; i < PATCH; ++i)
                #pragma unroll
                for (int j = 0; j < PATCH; ++j) sum[i][j] = fmaf(rows[i], columns[j], sum[i][j]);
",
        "            #pragma unroll 1
            for (int i = 0; i < PATCH; ++i)
                #pragma unroll
                for (int j = 0; j < PATCH; ++j) sum[i][j] = fmaf(rows[i], columns[j], sum[i][j]);  // <- cause
",
    )]),
    by_code("counts indexed by a value", "tally/default", "local-array", &[edit(
        HISTOGRAM,
        "        #pragma unroll\n        for (int c = 0; c < CLASSES; ++c) found[c] += value == c;\n",
        "        if (value < CLASSES) ++found[value];  // <- cause\n",
    )]),
    by_counters("every other thread of a warp", "dots/default", "divergence", &[edit(
        ROWS,
        "    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            parts[threadIdx.x] += parts[threadIdx.x + half];
",
        "    for (int half = 1; half < THREADS; half *= 2) {
        if (threadIdx.x % (2 * half) == 0)
            parts[threadIdx.x] += parts[threadIdx.x + half];  // <- cause
",
    )]),
    by_counters("a row of scores to one lane", "sdpa_f16/wmma", "divergence", &[
        edit(GATES, "SYNC_POLICY: 2, USE_WMMA: 1", "SYNC_POLICY: 2, USE_WMMA: 1, REDUCE: 0"),
        edit(
            ATTENTION,
            "        if (lane() >= ROWS) return;\n",
            "        if (lane() >= ROWS) return;  // <- cause\n",
        ),
    ]),
    by_code("a constant in double precision", "smooth/default", "double-precision", &[edit(
        STENCIL,
        "        out[i] = 0.2f * (sum + in[i]);\n",
        "        out[i] = 0.2 * (sum + in[i]);  // <- cause\n",
    )]),
    by_code("a sum in double precision", "sdpa_f16/wmma", "double-precision", &[
        edit(
            ATTENTION,
            "    float partial_sum = 0.0f;                                   // of this lane's columns only\n",
            "    double partial_sum = 0.0;                                   // of this lane's columns only\n",
        ),
        edit(
            ATTENTION,
            "                    partial_sum += used.x + used.y;\n",
            "                    partial_sum += used.x + used.y;  // <- cause\n",
        ),
    ]),
    by_code("divided, not multiplied", "softmax/default", "slow-division", &[edit(
        SOFTMAX,
        "out[j] = expf(in[j] - maximum) * inverse;\n",
        "out[j] = expf(in[j] - maximum) / sum;  // <- cause\n",
    )]),
    by_code("divided exactly", "adam/default", "slow-division", &[edit(
        ROWS,
        "0.01f * __fdividef(mean[i], sqrtf(square[i]) + 1e-3f);\n",
        "0.01f * (mean[i] / (sqrtf(square[i]) + 1e-3f));  // <- cause\n",
    )]),
    by_code("an index divided by an argument", "smooth/default", "slow-division", &[edit(
        STENCIL,
        "        const int row = i / COLUMNS, column = i % COLUMNS;\n",
        "        const int row = i / columns, column = i % columns;  // <- cause\n",
    )]),
    by_code("exp2f where an instruction would do", "sdpa_f16/mma", "slow-special-function", &[edit(
        ATTENTION,
        "    asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(result) : \"f\"(x));\n",
        "    result = exp2f(x);  // <- cause\n",
    )]),
    Regression {
        base: &[
            edit(SOFTMAX, "sum += expf(in[j] - maximum);", "sum += __expf(in[j] - maximum);"),
            edit(SOFTMAX, "out[j] = expf(in[j] - maximum) * inverse;", "out[j] = __expf(in[j] - maximum) * inverse;"),
        ],
        ..by_code("expf, not __expf", "softmax/default", "slow-special-function", &[edit(
            SOFTMAX,
            "sum += __expf(in[j] - maximum);\n",
            "sum += expf(in[j] - maximum);  // <- cause\n",
        )])
    },
    Regression {
        needs: Needs::Profile,
        reached: Reached::Other("code-changed"),
        ..by_code("blocks along columns, not along rows", "gemm/default", "l2-reuse", &[
            edit(
                GATES,
                "launch: {grid: [\"ceil_div(N, 64)\", \"ceil_div(M, 64)\"], block: [256]}",
                "launch: {grid: [\"ceil_div(M, 64)\", \"ceil_div(N, 64)\"], block: [256]}",
            ),
            edit(
                GEMM,
                "    const int first_row = blockIdx.y * TILE_M;\n    const int first_column = blockIdx.x * TILE_N;\n",
                "    const int first_row = blockIdx.x * TILE_M;  // <- cause\n    const int first_column = blockIdx.y * TILE_N;\n",
            ),
        ])
    },
    Regression {
        base: &[edit(GATES, "define: {BLOCKS: 64}", "define: {BLOCKS: 2112}")],
        ..by_code("a few blocks more than one wave", "smooth/default", "tail-wave", &[edit(GATES, "define: {BLOCKS: 2112}", "define: {BLOCKS: 2200}")])
    },
    by_code("counted in global memory", "histogram/default", "atomics-contended", &[edit(
        HISTOGRAM,
        "        atomicAdd(&of_block[threadIdx.x % COPIES][values[i]], 1);\n",
        "        atomicAdd(&counts[values[i]], 1);  // <- cause\n",
    )]),
    by_code("weights that may be outputs", "stencil/default", "reload", &[
        edit(
            STENCIL,
            "stencil(const float* __restrict__ in, const float* __restrict__ weights, float* __restrict__ out,",
            "stencil(const float* in, const float* weights, float* out,",
        ),
        edit(
            STENCIL,
            "        sum += weights[1] * above + weights[2] * below;\n",
            "        sum += weights[1] * above + weights[2] * below;  // <- cause\n",
        ),
    ]),
    by_code("a gain that may be an output", "affine/default", "reload", &[
        edit(
            ROWS,
            "affine(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ shift, float* __restrict__ y,",
            "affine(const float* x, const float* gain, const float* shift, float* y,",
        ),
        edit(
            ROWS,
            "        y[start + i] = gain[blockIdx.x] * x[start + i] + shift[blockIdx.x];\n",
            "        y[start + i] = gain[blockIdx.x] * x[start + i] + shift[blockIdx.x];  // <- cause\n",
        ),
    ]),
    by_code("copied by way of registers", "sdpa_fp8/stage2", "async-copy-synchronous", &[edit(
        COMMON,
        "    const unsigned destination = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    const int bytes_read = valid ? CHUNK_BYTES : 0;
    asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\"
                 :: \"r\"(destination), \"l\"(global), \"r\"(bytes_read) : \"memory\");
",
        "    *static_cast<uint4*>(shared) = valid ? *static_cast<const uint4*>(global) : make_uint4(0, 0, 0, 0);  // <- cause\n",
    )]),
    by_code("waited for at once", "sdpa_f16/mma", "async-copy-synchronous", &[edit(
        SDPA_F16,
        "        if (SMEM_STAGE > 1) start_load(step + AHEAD);\n",
        "        if (SMEM_STAGE > 1) start_load(step + AHEAD);\n        cp_async_wait<0>();  // <- cause\n",
    )]),
    by_code("read again in every turn", "running_sum/default", "loop-invariant", &[
        edit(ROWS, "    const float factor = gain[blockIdx.x];\n", ""),
        edit(
            ROWS,
            "        if (i < columns) y[start + i] = factor * (before + sum);\n",
            "        if (i < columns) y[start + i] = gain[blockIdx.x] * (before + sum);  // <- cause\n",
        ),
    ]),
    Regression {
        base: &[
            edit(GATES, "define: {POINTS: 4, RING: 8}", "define: {POINTS: 8, RING: 8}"),
            edit(STENCIL, "constexpr int COARSEN = 4;", "constexpr int COARSEN = 8;"),
            edit(
                STENCIL,
                "__global__ void __launch_bounds__(128, 8)\n",
                "__global__ void __launch_bounds__(128, 16)\n",
            ),
        ],
        ..by_code("resident blocks no longer asked for", "window/default", "launch-bound", &[edit(
            STENCIL,
            "__global__ void __launch_bounds__(128, 16)\n",
            "__global__ void __launch_bounds__(128)  // <- cause\n",
        )])
    },
    by_code("a guard in the hot loop", "reduce/default", "predicated-access", &[edit(
        REDUCE,
        "    for (; j + (WAYS - 1) * THREADS < columns; j += WAYS * THREADS)
        #pragma unroll
        for (int way = 0; way < WAYS; ++way) partial[way] += in[j + way * THREADS];
    for (; j < columns; j += THREADS) partial[0] += in[j];
",
        "    for (; j < columns; j += WAYS * THREADS)
        #pragma unroll
        for (int way = 0; way < WAYS; ++way)
            if (j + way * THREADS < columns) partial[way] += in[j + way * THREADS];  // <- cause
",
    )]),
    by_code("codes by way of f32", "sdpa_fp8/wide", "more-instructions", &[edit(
        CODEC,
        "        return __half2(__nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(codes), __NV_E4M3));\n",
        "        const float2 pair = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(codes), __NV_E4M3)));\n        \
         return __halves2half2(__float2half_rz(pair.x), __float2half_rz(pair.y));  // <- cause\n",
    )]),
    by_code("multiplied and added apart", "sdpa_f16/mma", "more-instructions", &[edit(
        REGISTER_SOFTMAX,
        "                        const float x = fmaf(scores[m][n][i], scale_log2, -shift);\n",
        "                        const float x = __fadd_rn(__fmul_rn(scores[m][n][i], scale_log2), -shift);  // <- cause\n",
    )]),
    by_counters("B read from global memory for every row", "gemm/default", "staging-lost", &[
        edit(
            GEMM,
            "            const float4 b4 = *reinterpret_cast<const float4*>(&tile_b[depth][patch_column]);\n",
            "            const float* const from = b + size_t(min(first_k + depth, k - 1)) * n;\n            \
             const float4 b4 = {from[min(first_column + patch_column, n - 1)], from[min(first_column + patch_column + 1, n - 1)],\n                               \
             from[min(first_column + patch_column + 2, n - 1)], from[min(first_column + patch_column + 3, n - 1)]};  // <- cause\n",
        ),
        edit(
            GEMM,
            "        for (int i = threadIdx.x; i < TILE_K * TILE_N; i += THREADS) {
            const int depth = i / TILE_N, column = i % TILE_N;
            const bool inside = first_k + depth < k && first_column + column < n;
            tile_b[depth][column] = inside ? b[size_t(first_k + depth) * n + first_column + column] : 0.0f;
        }
",
            "",
        ),
        edit(GEMM, "    __shared__ __align__(16) float tile_b[TILE_K][TILE_N];\n", ""),
    ]),
];

/// Written when the rules were there, and not looked at before their first score: no rule was made for them.
pub const HELD_OUT: &[Regression] = &[
    Regression {
        base: &[edit(ROWS, "sqrtf(square[i]) + 1e-3f);", "square[i] * rsqrtf(square[i] + 1e-30f) + 1e-3f);")],
        ..by_code("a root rounded exactly", "adam/default", "slow-special-function", &[edit(
            ROWS,
            "square[i] * rsqrtf(square[i] + 1e-30f) + 1e-3f);\n",
            "sqrtf(square[i]) + 1e-3f);  // <- cause\n",
        )])
    },
    by_code("a second barrier in a scan", "running_sum/default", "barrier-added", &[edit(
        ROWS,
        "            if (threadIdx.x >= distance) sum += parts[side][threadIdx.x - distance];\n",
        "            if (threadIdx.x >= distance) sum += parts[side][threadIdx.x - distance];\n            __syncthreads();  // <- cause\n",
    )]),
    by_code("float4 written as four floats", "window/default", "vector-access-narrowed", &[edit(
        STENCIL,
        "    for (int i = 0; i < COARSEN; i += 4)
        *reinterpret_cast<float4*>(to + i) = make_float4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]);
",
        "    for (int i = 0; i < COARSEN; ++i) to[i] = sums[i];  // <- cause\n",
    )]),
    Regression {
        reached: Reached::ClassAlone,
        ..by_counters("both halves of a buffer side by side", "running_sum/default", "bank-conflicts", &[
            edit(ROWS, "    __shared__ float parts[2][THREADS];\n", "    __shared__ float parts[THREADS][2];\n"),
            edit(
                ROWS,
                "            parts[side][threadIdx.x] = sum;
            __syncthreads();
            if (threadIdx.x >= distance) sum += parts[side][threadIdx.x - distance];
",
                "            parts[threadIdx.x][side] = sum;
            __syncthreads();
            if (threadIdx.x >= distance) sum += parts[threadIdx.x - distance][side];  // <- cause
",
            ),
            edit(
                ROWS,
                "        parts[side][threadIdx.x] = sum;
        __syncthreads();
        if (i < columns)",
                "        parts[threadIdx.x][side] = sum;
        __syncthreads();
        if (i < columns)",
            ),
            edit(ROWS, "        before += parts[side][THREADS - 1];\n", "        before += parts[THREADS - 1][side];\n"),
        ])
    },
    by_counters("a stretch to each thread, loads and stores", "affine/default", "coalescing-lost", &[edit(
        ROWS,
        "    for (int i = threadIdx.x; i < columns; i += THREADS)
        y[start + i] = gain[blockIdx.x] * x[start + i] + shift[blockIdx.x];
",
        "    const int stretch = (columns + THREADS - 1) / THREADS;
    for (int i = threadIdx.x * stretch; i < min(columns, int(threadIdx.x + 1) * stretch); ++i)
        y[start + i] = gain[blockIdx.x] * x[start + i] + shift[blockIdx.x];  // <- cause
",
    )]),
    by_code("a window indexed by a loop", "window/default", "local-array", &[edit(
        STENCIL,
        "    #pragma unroll
    for (int j = 0; j <= 2 * RADIUS; ++j) {
        const float weight = weights[j];
        #pragma unroll
        for (int i = 0; i < COARSEN; ++i) sums[i] += weight * points[i + j];
",
        "    #pragma unroll 1
    for (int j = 0; j <= 2 * RADIUS; ++j) {
        const float weight = weights[j];
        #pragma unroll
        for (int i = 0; i < COARSEN; ++i) sums[i] += weight * points[i + j];  // <- cause
",
    )]),
    by_code("a dot product in double precision", "dots/default", "double-precision", &[edit(
        ROWS,
        "    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += THREADS) sum += a[start + i] * b[start + i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
",
        "    double total = 0.0;
    for (int i = threadIdx.x; i < columns; i += THREADS) total += double(a[start + i]) * b[start + i];  // <- cause
    const float sum = block_sum(float(total));
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
",
    )]),
    by_code("one turn at a time", "softmax/default", "unroll-lost", &[edit(
        SOFTMAX,
        "    for (int j = threadIdx.x; j < columns; j += THREADS) sum += expf(in[j] - maximum);\n",
        "    #pragma unroll 1\n    for (int j = threadIdx.x; j < columns; j += THREADS) sum += expf(in[j] - maximum);  // <- cause\n",
    )]),
    Regression {
        reached: Reached::Other("more-instructions"),
        ..by_code("copied when it is needed", "sdpa_fp8/vec_pv", "async-copy-synchronous", &[
            edit(
                SDPA_FP8,
                "        cp_async_wait<0>();
        __syncthreads();  // all warps are done with the decoded tiles
        decode_copied_codes",
                "        start(first_key);
        cp_async_wait<0>();  // <- cause
        __syncthreads();  // all warps are done with the decoded tiles
        decode_copied_codes",
            ),
            edit(
                SDPA_FP8,
                "        __syncthreads();  // the new tiles are complete
        if (first_key + BLOCK_N < seq_len) start(first_key + BLOCK_N);
",
                "        __syncthreads();  // the new tiles are complete\n",
            ),
            edit(SDPA_FP8, "    tiles.start(0);\n", ""),
        ])
    },
    by_counters("half of the lanes at work", "spmv/default", "divergence", &[edit(
        SPMV,
        "    for (int i = begin + lane; i < end; i += 32)
        sum += values[i] * x[columns[i]];
",
        "    if (lane < 16)
        for (int i = begin + lane; i < end; i += 16)
            sum += values[i] * x[columns[i]];  // <- cause
",
    )]),
];

pub const HARMLESS: &[Harmless] = &[
    Harmless {
        name: "a variable renamed",
        unit: "spmv/default",
        base: &[],
        head: &[
            edit(SPMV, "    float sum = 0.0f;\n", "    float total = 0.0f;\n"),
            edit(
                SPMV,
                "        sum += values[i] * x[columns[i]];\n",
                "        total += values[i] * x[columns[i]];\n",
            ),
            edit(
                SPMV,
                "sum += __shfl_xor_sync(0xffffffffu, sum, distance);",
                "total += __shfl_xor_sync(0xffffffffu, total, distance);",
            ),
            edit(SPMV, "y[row] = sum;", "y[row] = total;"),
        ],
        same_code: true,
        said: "nothing-changed",
    },
    Harmless {
        name: "a function moved",
        unit: "softmax/default",
        base: &[],
        head: &[
            edit(
                COMMON,
                "struct Sum {
    static constexpr float identity = 0.0f;
    __device__ float operator()(float a, float b) const { return a + b; }
};

",
                "",
            ),
            edit(
                COMMON,
                "// Every lane gets the reduction over its warp.\n",
                "struct Sum {
    static constexpr float identity = 0.0f;
    __device__ float operator()(float a, float b) const { return a + b; }
};

// Every lane gets the reduction over its warp.\n",
            ),
        ],
        same_code: true,
        said: "nothing-changed",
    },
    Harmless {
        name: "a comment",
        unit: "gemm/default",
        base: &[],
        head: &[edit(
            GEMM,
            "// Launch: grid",
            "// The order of the additions over K is fixed.\n//\n// Launch: grid",
        )],
        same_code: true,
        said: "nothing-changed",
    },
    Harmless {
        name: "other inputs",
        unit: "affine/default",
        base: &[],
        head: &[edit(
            GATES,
            "      gain: {type: f32, shape: [R]}\n      shift: ",
            "      gain: {type: f32, shape: [R], fill: {constant: 0.5}}\n      shift: ",
        )],
        same_code: true,
        said: "data",
    },
    Harmless {
        name: "more blocks, and no tail",
        unit: "smooth/default",
        base: &[edit(GATES, "define: {BLOCKS: 64}", "define: {BLOCKS: 264}")],
        head: &[edit(
            GATES,
            "define: {BLOCKS: 264}",
            "define: {BLOCKS: 528}",
        )],
        same_code: true,
        said: "launch",
    },
    Harmless {
        name: "another constant",
        unit: "smooth/default",
        base: &[],
        head: &[edit(
            STENCIL,
            "out[i] = 0.2f * (sum + in[i]);",
            "out[i] = 0.2000001f * (sum + in[i]);",
        )],
        same_code: false,
        said: "code-changed",
    },
    Harmless {
        name: "statements in another order",
        unit: "adam/default",
        base: &[],
        head: &[edit(
            ROWS,
            "        mean[i] = 0.9f * mean[i] + 0.1f * g[i];
        square[i] = 0.999f * square[i] + 0.001f * (g[i] * g[i]);
",
            "        square[i] = 0.999f * square[i] + 0.001f * (g[i] * g[i]);
        mean[i] = 0.9f * mean[i] + 0.1f * g[i];
",
        )],
        same_code: true,
        said: "nothing-changed",
    },
    Harmless {
        name: "operands in another order",
        unit: "stencil/default",
        base: &[],
        head: &[edit(
            STENCIL,
            "        sum += weights[3] * middle[left] + weights[4] * middle[right];\n",
            "        sum += weights[4] * middle[right] + weights[3] * middle[left];\n",
        )],
        same_code: false,
        said: "code-changed",
    },
    Harmless {
        name: "a pad added where it was missing",
        unit: "transpose/default",
        base: &[edit(
            TRANSPOSE,
            "float tile[TILE][TILE + 1];",
            "float tile[TILE][TILE];",
        )],
        head: &[edit(
            TRANSPOSE,
            "float tile[TILE][TILE];",
            "float tile[TILE][TILE + 1];",
        )],
        same_code: false,
        said: "code-changed",
    },
    Harmless {
        name: "a division removed",
        unit: "adam/default",
        base: &[edit(
            ROWS,
            "0.01f * __fdividef(mean[i], sqrtf(square[i]) + 1e-3f);",
            "0.01f * (mean[i] / (sqrtf(square[i]) + 1e-3f));",
        )],
        head: &[edit(
            ROWS,
            "0.01f * (mean[i] / (sqrtf(square[i]) + 1e-3f));",
            "0.01f * __fdividef(mean[i], sqrtf(square[i]) + 1e-3f);",
        )],
        same_code: false,
        said: "code-changed",
    },
];
