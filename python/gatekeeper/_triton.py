"""Compiles a Triton kernel as a launch would, without a GPU. All that knows Triton is here; gates.yaml is not."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from gatekeeper._tensor import Tensor

#: Types of tensors in gates.yaml, and their names in Triton.
_POINTERS = {
    "f64": "fp64", "f32": "fp32", "f16": "fp16", "bf16": "bf16", "e4m3": "fp8e4nv", "e5m2": "fp8e5",
    "i8": "i8", "u8": "u8", "i16": "i16", "u16": "u16", "i32": "i32", "u32": "u32", "i64": "i64",
}  # fmt: skip

#: Which argument of gates.yaml passes a scalar of Triton.
_SCALARS = {
    "u1": "bool", "i1": "bool", "i8": "i8", "u8": "u8", "i16": "i16", "u16": "u16", "i32": "i32", "u32": "u32",
    "i64": "i64", "u64": "u64", "fp16": "f16", "bf16": "bf16", "fp32": "f32", "fp64": "f64",
}  # fmt: skip

#: Triton compiles an integer or an address that is a multiple of this as one (``tt.divisibility``).
_DIVISOR = 16

Number = Union[int, float]


class ExportError(ValueError):
    """The kernel cannot be exported like this. The message says what to do."""


@dataclasses.dataclass(frozen=True)
class Scalar:
    """A number, or the name of a dimension, and what it is at each shape."""

    written: Union[Number, str]
    values: Tuple[Number, ...]


@dataclasses.dataclass(frozen=True)
class Call:
    """Parameters of a kernel by name, in order: what is passed, and what is compiled in."""

    passed: Mapping[str, Union[Tensor, Scalar]]
    constants: Mapping[str, object]


@dataclasses.dataclass(frozen=True)
class Compiled:
    ptx: str
    #: As the PTX names it: ``sm_90a``.
    target: str
    #: The symbol of the kernel.
    entry: str
    #: Threads of a block.
    threads: int
    #: Bytes of dynamic shared memory of a block.
    shared: int
    cooperative: bool
    #: Scalars that are passed, by name, with their type in gates.yaml. Integers may be compiled in, and are then not
    #: among them.
    scalars: Mapping[str, str]
    #: Parameters behind the kernel's own, which Triton's launcher passes: memory that blocks work in.
    hidden: int
    #: Bytes of the first of them, for each block.
    scratch: int


def _triton(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ExportError(f"export needs Triton in this Python ({error}): pip install triton") from error


def parameters(kernel: Any) -> List[Any]:
    """Of a function with ``@triton.jit``, as Triton has them."""
    jit = _triton("triton.runtime.jit")
    name = getattr(kernel, "__name__", type(kernel).__name__)
    if not isinstance(kernel, jit.JITFunction):
        if isinstance(getattr(kernel, "fn", None), jit.KernelInterface):
            raise ExportError(
                f"{name} chooses its constants at each launch ({type(kernel).__name__}): export the function inside, "
                f"{name}.fn, with the constants of one configuration"
            )
        raise ExportError(
            f"{name} is no function with @triton.jit ({type(kernel).__name__})"
            " - and with TRITON_INTERPRET=1 there is none"
        )
    if getattr(kernel, "is_gluon", lambda: False)():
        raise ExportError(f"{name} is a kernel of Gluon, and export knows those of Triton alone")
    return list(kernel.params)


def compile_kernel(
    kernel: Any, call: Call, capability: int, ptx_version: int, options: Mapping[str, object]
) -> Compiled:
    """The code of a launch at any of the shapes: integers are compiled in, or as multiples of 16, where Triton would do
    so at every one of them."""
    signature: Dict[str, str] = {}
    constants = dict(call.constants)
    attributes: Dict[Tuple[int, ...], object] = {}
    for at, param in enumerate(parameters(kernel)):
        given = call.passed.get(param.name)
        if given is None:
            signature[param.name] = "constexpr"
            continue
        if isinstance(given, Tensor):
            signature[param.name] = _pointer(param, given)
        else:
            signature[param.name] = _scalar(param, given)
            if _is_compiled_in(param, given):
                signature[param.name] = "constexpr"
                constants[param.name] = 1
                continue
        if _is_multiple(param, given):
            attributes[(at,)] = [["tt.divisibility", _DIVISOR]]
    made = _compile(kernel, signature, constants, attributes, capability, dict(options))
    if "ptx_version" not in options and _version(made.asm["ptx"]) > ptx_version:
        told = dict(options, ptx_version=ptx_version)
        made = _compile(kernel, signature, constants, attributes, capability, told)
    scalars = {
        name: _SCALARS[signature[name]]
        for name, given in call.passed.items()
        if isinstance(given, Scalar) and signature[name] != "constexpr"
    }
    pointers = sum(isinstance(given, Tensor) for given in call.passed.values())
    return _read(made, options, scalars, pointers + len(scalars))


def _pointer(param: Any, tensor: Tensor) -> str:
    if tensor.type not in _POINTERS:
        raise ExportError(
            f"{param.name}: {tensor.type!r} is no type of a tensor that Triton has; {', '.join(_POINTERS)} are"
        )
    return ("*k" if param.is_const else "*") + _POINTERS[tensor.type]


def _scalar(param: Any, scalar: Scalar) -> str:
    """As Triton types the arguments of a launch (``mangle_type``)."""
    if param.annotation_type:
        declared = str(param.annotation_type)
        if declared not in _SCALARS:
            raise ExportError(f"{param.name} is declared as {declared}, and a number is given")
        return declared
    if any(isinstance(value, bool) for value in scalar.values):
        return "u1"
    if any(isinstance(value, float) for value in scalar.values):
        return "fp32"
    types = {_integer(param.name, value) for value in scalar.values}
    if len(types) > 1:
        raise ExportError(
            f"{param.name} is {' and '.join(sorted(types))} at different shapes, for which Triton compiles different "
            "kernels: export them one by one, each under a `name`"
        )
    return types.pop()


def _integer(name: str, value: Number) -> str:
    for kind, low, high in (("i32", -(2**31), 2**31), ("i64", -(2**63), 2**63), ("u64", 0, 2**64)):
        if low <= value < high:
            return kind
    raise ExportError(f"{name} is {value}, which has more than 64 bits")


def _is_integer(scalar: Scalar) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in scalar.values)


def _is_compiled_in(param: Any, scalar: Scalar) -> bool:
    return not param.do_not_specialize and _is_integer(scalar) and all(value == 1 for value in scalar.values)


def _is_multiple(param: Any, given: Union[Tensor, Scalar]) -> bool:
    if param.do_not_specialize or getattr(param, "do_not_specialize_on_alignment", False):
        return False
    # Addresses of tensors are multiples of 256 in gatekeeper, as in PyTorch.
    return isinstance(given, Tensor) or (_is_integer(given) and all(value % _DIVISOR == 0 for value in given.values))


def _compile(
    kernel: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, object],
    attributes: Mapping[Tuple[int, ...], object],
    capability: int,
    options: Mapping[str, object],
) -> Any:
    triton, backends, compiler = map(_triton, ("triton", "triton.backends.compiler", "triton.compiler"))
    source = compiler.ASTSource(kernel, dict(signature), dict(constants), dict(attributes))
    target = backends.GPUTarget("cuda", capability, 32)
    try:
        # Triton's cache knows a kernel by its text. What it has may have been compiled from a copy elsewhere, and names
        # the lines of that.
        with _environment("TRITON_ALWAYS_COMPILE", "1"):
            return triton.compile(source, target=target, options=dict(options))
    except (triton.CompilationError, RuntimeError) as error:
        raise ExportError(f"Triton {triton.__version__} does not compile {kernel.__name__}: {error}") from error


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _version(ptx: str) -> int:
    found = re.search(r"^\.version (\d+)\.(\d+)", ptx, re.MULTILINE)
    if not found:
        raise ExportError("the PTX that Triton made has no .version")
    return 10 * int(found[1]) + int(found[2])


def _read(made: Any, options: Mapping[str, object], scalars: Mapping[str, str], own: int) -> Compiled:
    ptx, facts = made.asm["ptx"], made.metadata
    # Triton says nothing about an option that it does not know.
    unknown = [name for name in options if not hasattr(facts, name)]
    if unknown:
        raise ExportError(f"{', '.join(unknown)}: Triton has no such option of a launch")
    target = re.search(r"^\.target ([a-z0-9_]+)", ptx, re.MULTILINE)
    entry = re.search(r"\.entry ([\w$]+)\((.*?)\)(.*?)^\{", ptx, re.MULTILINE | re.DOTALL)
    if not target or not entry:
        raise ExportError("the PTX that Triton made has no .target or no .entry")
    # A kernel with specialised warps has more threads than num_warps says.
    threads = re.search(r"\.(?:req|max)ntid (\d+)", entry[3])
    hidden = entry[2].count(".param") - own
    if hidden not in (0, 1, 2):
        raise ExportError(
            f"the PTX that Triton made has {own + hidden} parameters where {own} are passed: export knows of up to two "
            "more, for scratch memory"
        )
    refused = {
        "it is instrumented for a profiler": getattr(facts, "profile_scratch_size", 0),
        "it starts before the kernel in front of it has ended (launch_pdl)": getattr(facts, "launch_pdl", False),
        "its programs are clusters (num_ctas)": facts.num_ctas > 1,
        "it uses tensor memory": getattr(facts, "tmem_size", 0),
    }
    for what, is_so in refused.items():
        if is_so:
            raise ExportError(f"{entry[1]} cannot be exported: {what}")
    return Compiled(
        ptx=ptx,
        target=target[1],
        entry=entry[1],
        threads=int(threads[1]) if threads else 32 * int(facts.num_warps),
        shared=int(facts.shared),
        cooperative=bool(getattr(facts, "launch_cooperative_grid", False)),
        scalars=scalars,
        hidden=hidden,
        scratch=int(getattr(facts, "global_scratch_size", 0)),
    )
