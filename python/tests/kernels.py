"""Kernels and references of the tests."""

from typing import Any

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def past_the_end(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at, mask=at < n)
    b = tl.load(y + at)
    tl.store(out + at, a + b, mask=at < n)


@triton.jit
def scale_rows(x, out, stride, columns, by: tl.float32, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < columns
    row = tl.load(x + tl.program_id(0) * stride + at, mask=inside, other=0.0)
    tl.store(out + tl.program_id(0) * stride + at, row / tl.sum(row * row, axis=0) * by, mask=inside)


@triton.jit
def with_descriptor(x, out, rows, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[rows, COLUMNS], strides=[COLUMNS, 1], block_shape=[BLOCK, COLUMNS])
    target = tl.make_tensor_descriptor(out, shape=[rows, COLUMNS], strides=[COLUMNS, 1], block_shape=[BLOCK, COLUMNS])
    first = tl.program_id(0) * BLOCK
    target.store([first, 0], source.load([first, 0]))


@triton.autotune(configs=[triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def tuned(x, n, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 0.0, mask=tl.arange(0, BLOCK) < n)


def sum_of(x: Any, y: Any) -> Any:
    return x + y


def in_place(out: Any) -> Any:
    return out
