"""One search by kernel_tuner of what a `tune` block of gates.yaml describes, at one shape. Called by compare.py.

Standard input: JSON with kernel, variant (resolved), shape, strategy, seconds, seed. Standard output: JSON.

It is as a user of kernel_tuner would write it for these kernels, with two things in its favour: the correctness of each
configuration at this shape is checked by its own `answer`, and more than 48 KiB of dynamic shared memory, which its
CUDA backend does not ask for, is asked for here.
"""

import json
import pathlib
import re
import sys
import time

import numpy as np
import torch
from cuda.bindings import driver
from kernel_tuner import tune_kernel
from kernel_tuner.backends import nvcuda

HERE = pathlib.Path(__file__).resolve().parent
KERNELS = HERE.parents[1] / "kernels"
CUDA = pathlib.Path("/usr/local/cuda/include")


def ask_for_shared_memory(functions, sizes):
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    nvcuda.cuda_error_check(driver.cuFuncSetAttribute(functions.func, attribute, int(sizes["size"]))[0])
    functions.smem_size = sizes["size"]


nvcuda.CudaFunctions.copy_shared_memory_args = ask_for_shared_memory


def to_python(expression):
    """An expression of gates.yaml as Python: integers, `&&`, `||`, max, ceil_div."""
    text = expression.replace("||", " or ").replace("&&", " and ")
    return re.sub(r"(?<!/)/(?!/)", "//", text)


def evaluate(expression, names):
    functions = {"max": max, "min": min, "ceil_div": lambda a, b: -(-a // b)}
    return eval(to_python(str(expression)), {"__builtins__": {}}, functions | names)


def make_arguments(entry, shape):
    """Inputs as the kernel takes them, and what it should answer: f32 attention of the same values."""
    generator = torch.Generator().manual_seed(1)
    sizes = [shape[name] for name in "BHSD"]
    values = [torch.randn(sizes, generator=generator) for _ in range(3)]
    if entry == "sdpa_f16":
        given = [value.half() for value in values]
        seen = [value.float() for value in given]
        arguments = [value.numpy() for value in given]
        out = np.zeros(sizes, np.float32)
    else:
        scales = [value.abs().amax(dim=(2, 3)) / 448 for value in values]
        codes = [(value / scale[:, :, None, None]).to(torch.float8_e4m3fn) for value, scale in zip(values, scales)]
        seen = [code.float() * scale[:, :, None, None] for code, scale in zip(codes, scales)]
        arguments = [code.view(torch.uint8).numpy() for code in codes] + [scale.numpy() for scale in scales]
        out = np.zeros(sizes, np.float16)
    expected = torch.nn.functional.scaled_dot_product_attention(*seen).numpy().astype(out.dtype)
    arguments += [out, np.int32(shape["H"]), np.int32(shape["S"])]
    answer = [expected if argument is out else None for argument in arguments]
    return arguments, answer


def main():
    asked = json.load(sys.stdin)
    variant, shape = asked["variant"], asked["shape"]
    fixed = dict(variant["define"])
    parameters = variant["tune"]["parameters"]
    for name in parameters:
        fixed.pop(name, None)
    launch = variant["launch"]
    names = list(parameters)

    def dynamic_shared(values):
        macros = {name: values[name] for name in names}
        return evaluate(launch.get("dynamic_shared", 0), fixed | macros | shape)

    # The size of a block is a parameter of its own to kernel_tuner, as it follows from the others here.
    blocks = sorted({evaluate(launch["block"][0], fixed | shape | dict(zip(names, combination)))
                     for combination in np.array(np.meshgrid(*parameters.values())).T.reshape(-1, len(names)).tolist()})
    limit = asked["shared"]

    def is_valid(values):
        macros = fixed | {name: values[name] for name in names} | shape
        return (values["block_size_x"] == evaluate(launch["block"][0], macros)
                and all(evaluate(constraint, macros) for constraint in variant["tune"].get("constraints", []))
                and dynamic_shared(values) <= limit)

    arguments, answer = make_arguments(asked["entry"], shape)
    # In units of one block: kernel_tuner divides the problem by products of parameters alone.
    persistent = "USE_PERSISTENT_CTA" in parameters
    divisors = ["BLOCK_M", "(1 + USE_PERSISTENT_CTA)"] if persistent else ["BLOCK_M"]
    began = time.monotonic()
    results, _ = tune_kernel(
        asked["entry"], (KERNELS / f"{asked['entry']}.cu").read_text(), (shape["S"], shape["H"], shape["B"]), arguments,
        dict(block_size_x=blocks, **parameters), grid_div_x=divisors, grid_div_y=[], grid_div_z=[],
        restrictions=is_valid, answer=answer, atol=asked["max_err"], lang="nvcuda", smem_args={"size": dynamic_shared},
        compiler_options=["-std=c++17", "--gpu-architecture=compute_90", f"-I{KERNELS}", f"-I{HERE / 'nvrtc'}",
                          f"-I{CUDA}", f"-I{CUDA / 'cccl'}", *(f"-D{name}={value}" for name, value in fixed.items())],
        strategy=asked["strategy"], strategy_options={"time_limit": asked["seconds"], "max_fevals": 10_000},
        seed=asked["seed"], verify=None, quiet=True)
    took = time.monotonic() - began
    timed = [it for it in results if isinstance(it["time"], float)]
    best = min(timed, key=lambda it: it["time"], default=None)
    print(json.dumps({
        "tried": len(results), "timed": len(timed), "seconds": took,
        "refused": sorted({str(it["time"]) for it in results if not isinstance(it["time"], float)}),
        "best": best and {"values": {name: best[name] for name in names}, "us": best["time"] * 1e3}}))


main()
