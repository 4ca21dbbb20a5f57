"""`pytest examples/triton` runs these gates, without a GPU in the simulator; docs/python.md explains them."""

import expected
import kernels
import pytest

from gatekeeper import Tensor


@pytest.mark.gatekeeper(max_err=2e-3, registers=40, spills=0)
def test_silu_mul(gate):
    gate(
        kernels.silu_mul,
        args={
            "x": Tensor("f16", ["N"]),
            "up": Tensor("f16", ["N"]),
            "out": Tensor("f16", ["N"], role="out"),
            "n": "N",
            "BLOCK": 512,
        },
        grid="ceil_div(N, BLOCK)",
        shapes={"whole": {"N": 8192}, "tail": {"N": 8191}},
        reference=expected.silu_mul,
    )


@pytest.mark.gatekeeper(max_err=1e-6, registers=64, spills=0)
def test_softmax(gate):
    gate(
        kernels.softmax,
        args={
            "x": Tensor("f32", ["R", "C"]),
            "out": Tensor("f32", ["R", "C"], role="out"),
            "stride": "C",
            "columns": "C",
            "BLOCK": 1024,
        },
        grid="R",
        shapes={"rows": {"R": 16, "C": 1000}},
        reference={"softmax": {"x": "x", "out": "out"}},
        num_warps=8,
    )
