"""Two kernels as a model would have them. Both fit any size."""

import triton
import triton.language as tl


@triton.jit
def silu_mul(x, up, out, n, BLOCK: tl.constexpr):
    """out = silu(x) * up, as between the two matrix products of a transformer's feed-forward layer."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(x + at, mask=inside).to(tl.float32)
    b = tl.load(up + at, mask=inside).to(tl.float32)
    tl.store(out + at, a * tl.sigmoid(a) * b, mask=inside)


@triton.jit
def softmax(x, out, stride, columns, BLOCK: tl.constexpr):
    """Over each row, which fits a block."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * stride + at, mask=inside, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + at, powers / tl.sum(powers, axis=0), mask=inside)
