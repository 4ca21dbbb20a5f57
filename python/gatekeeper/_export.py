"""A Triton kernel as PTX and as a kernel of gates.yaml."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from gatekeeper import _gates, _triton
from gatekeeper._tensor import Extent, Tensor
from gatekeeper._triton import Call, Compiled, ExportError, Number, Scalar

#: A function over NumPy arrays, or a reference as gates.yaml has it.
Reference = Union[Callable[..., object], Mapping[str, object], str]

Shapes = Mapping[str, Mapping[str, int]]


@dataclasses.dataclass(frozen=True)
class Exported:
    """A kernel that is in a gates.yaml: ``gatekeeper run --config CONFIG NAME``."""

    name: str
    config: Path
    ptx: Path


def export(
    kernel: Any,
    args: Mapping[str, object],
    grid: Union[Extent, Sequence[Extent]],
    *,
    shapes: Shapes,
    reference: Reference,
    gates: Mapping[str, object],
    to: Union[str, "os.PathLike[str]"] = "gates",
    name: Optional[str] = None,
    arch: str = "sm_90",
    cuda: str = "13.0",
    **options: object,
) -> Exported:
    """Writes ``TO/NAME.ptx`` and the kernel's entry in ``TO/gates.yaml``. Needs Triton and no GPU.

    ``args`` has each parameter by name: a ``Tensor`` for a pointer; a number or the name of a dimension for a scalar; any
    value for a ``tl.constexpr``. Parameters with a default may be missing. ``grid`` and the shapes of tensors are
    expressions of gates.yaml over the dimensions of ``shapes`` and the integers of ``tl.constexpr`` parameters.

    ``reference`` is a function over NumPy arrays, in a file of its own, that takes arguments of the kernel by name and
    returns the outputs; or a reference of gates.yaml: ``{"unary": {...}}``. ``gates`` are those of gates.yaml.

    ``options`` are Triton's, as in a launch: ``num_warps=8``. ``cuda`` is the compiler that the gates are for: PTX is
    written in a version that it reads.

    Integers are compiled in (1) or as multiples of 16 where that is so at every shape, as Triton does it for a launch.

    Raises ExportError, with what to do.
    """
    if not shapes:
        raise ExportError("`shapes` has no shape: give at least one, {'small': {'N': 1000}}, or {'default': {}}")
    call = _bind(kernel, args, shapes)
    compiled = _triton.compile_kernel(kernel, call, _capability(arch), _ptx_version(cuda), options)
    directory = Path(to)
    directory.mkdir(parents=True, exist_ok=True)
    name = name or compiled.entry
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise ExportError(f"{name!r} is no name of a kernel: it has letters, digits, _ and -")
    extents = [grid] if isinstance(grid, (int, str)) else list(grid)
    entry = _entry(f"{name}.ptx", call, compiled, extents, shapes, _written(reference, call, directory), gates)
    exported = Exported(name=name, config=directory / "gates.yaml", ptx=directory / f"{name}.ptx")
    try:
        _gates.write(exported.config, compiled.target, cuda, name, entry)
    except ValueError as error:
        raise ExportError(str(error)) from error
    _gates.replace(exported.ptx, _portable(compiled.ptx, directory))
    return exported


def _bind(kernel: Any, args: Mapping[str, object], shapes: Shapes) -> Call:
    passed: Dict[str, Union[Tensor, Scalar]] = {}
    constants: Dict[str, object] = {}
    parameters = _triton.parameters(kernel)
    names = [param.name for param in parameters]
    unknown = [name for name in args if name not in names]
    if unknown:
        raise ExportError(f"{kernel.__name__} has no parameter {', '.join(unknown)}; it has {', '.join(names)}")
    for param in parameters:
        if param.name in args:
            value = args[param.name]
        elif param.has_default:
            value = param.default
        else:
            raise ExportError(f"{kernel.__name__} has a parameter {param.name}, which `args` does not give")
        if param.is_constexpr or value is None:
            constants[param.name] = value
        elif isinstance(value, Tensor):
            passed[param.name] = value
        else:
            passed[param.name] = _scalar(param.name, value, shapes)
    return Call(passed, constants)


def _scalar(name: str, value: object, shapes: Shapes) -> Scalar:
    if isinstance(value, (int, float)):
        return Scalar(value, (value,))
    if isinstance(value, str):
        lacking = [shape for shape, dims in shapes.items() if value not in dims]
        if not lacking:
            return Scalar(value, tuple(dims[value] for dims in shapes.values()))
        raise ExportError(
            f"{name} is {value!r}, which is no dimension of shape {lacking[0]!r}: add one, since Triton compiles by the value"
        )
    raise ExportError(
        f"{name} is {type(value).__name__}: give a gatekeeper.Tensor for a pointer, and a number or the name of a dimension "
        "for a scalar (tuples and tensor descriptors cannot be exported)"
    )


def _capability(arch: str) -> int:
    found = re.fullmatch(r"sm_(\d+)a?", arch)
    if not found:
        raise ExportError(f"{arch!r} is no architecture: write sm_90")
    return int(found[1])


def _ptx_version(cuda: str) -> int:
    """The PTX of a CUDA (PTX ISA 13, release history), as Triton counts: 90 is 9.0."""
    found = re.fullmatch(r"(12|13)\.(\d+)(\.\d+)?", cuda)
    if not found:
        raise ExportError(f"{cuda!r} is no CUDA that PTX can be written for: write 13.0")
    minor = int(found[2])
    if found[1] == "13":
        return 90 + minor
    # CUDA 12.6 has the PTX of 12.5.
    return 80 + (minor if minor < 6 else minor - 1)


def _entry(
    source: str,
    call: Call,
    compiled: Compiled,
    grid: List[Extent],
    shapes: Shapes,
    reference: object,
    gates: Mapping[str, object],
) -> _gates.Entry:
    tensors = {name: given.keys() for name, given in call.passed.items() if isinstance(given, Tensor)}
    arguments: List[object] = []
    for name, given in call.passed.items():
        if isinstance(given, Tensor):
            arguments.append({"tensor": name})
        elif name in compiled.scalars:
            arguments.append({compiled.scalars[name]: given.written})
    # Triton's launcher passes memory that blocks work in, and a null pointer where they need none.
    hidden: List[object] = ["nullptr"] * compiled.hidden
    if compiled.scratch:
        size = " * ".join(f"({extent})" for extent in grid)
        tensors["global_scratch"] = {"role": "scratch", "type": "u8", "shape": [f"{size} * {compiled.scratch}"]}
        hidden[0] = {"tensor": "global_scratch"}
    launch: Dict[str, object] = {"grid": grid, "block": [compiled.threads]}
    if compiled.shared:
        launch["dynamic_shared"] = compiled.shared
    if compiled.cooperative:
        launch["cooperative"] = True
    entry: Dict[str, object] = {
        "source": source,
        "entry": compiled.entry,
        "shapes": _with_constants(shapes, call.constants, grid, tensors),
        "tensors": tensors,
        "args": arguments + hidden,
        "launch": launch,
    }
    if any(isinstance(given, Tensor) and given.is_result() for given in call.passed.values()):
        entry["reference"] = reference
    entry["gates"] = gates
    return entry


def _with_constants(
    shapes: Shapes, constants: Mapping[str, object], grid: List[Extent], tensors: Mapping[str, object]
) -> Dict[str, Dict[str, int]]:
    """Constants that an expression names are dimensions, too: PTX has no macros."""
    named = set(re.findall(r"[A-Za-z_]\w*", _gates.flow([grid, list(tensors.values())])))
    used = {name: value for name, value in constants.items() if name in named and type(value) is int}
    for name, value in used.items():
        for shape, dims in shapes.items():
            if dims.get(name, value) != value:
                raise ExportError(f"{name} is {value} as a constant and {dims[name]} at shape {shape!r}: rename one of them")
    return {shape: {**dims, **used} for shape, dims in shapes.items()}


def _written(reference: Reference, call: Call, directory: Path) -> object:
    if not callable(reference):
        return reference
    file = inspect.getsourcefile(reference)
    name = reference.__name__
    if not file or reference.__qualname__ != name:
        raise ExportError(f"the reference {reference.__qualname__} is no function of a module: gatekeeper imports it from its file")
    args: List[object] = []
    taken = list(inspect.signature(reference).parameters)
    for each in taken:
        given = call.passed.get(each)
        if isinstance(given, Tensor) and given.role != "out":
            args.append({"tensor": each})
        elif isinstance(given, Scalar):
            args.append({_kind(given): given.written})
        elif type(call.constants.get(each)) in (bool, int, float):
            value = call.constants[each]
            args.append({_kind(Scalar(value, (value,))): value})  # type: ignore[arg-type]
        else:
            raise ExportError(
                f"the reference {name} takes {each}, which is neither an input nor a number among the kernel's arguments"
            )
    for each, given in call.passed.items():
        if not isinstance(given, Tensor) or not given.is_result():
            continue
        if given.role == "out":
            args.append({"tensor": each})
        elif each not in taken:
            raise ExportError(f"the reference {name} does not take {each}, which the kernel reads and writes")
    source = os.path.relpath(os.path.realpath(file), os.path.realpath(directory))
    return {"user": {"source": source, "function": name, "args": args}}


def _kind(scalar: Scalar) -> str:
    if any(isinstance(value, bool) for value in scalar.values):
        return "bool"
    return "f64" if any(isinstance(value, float) for value in scalar.values) else "i64"


def _portable(ptx: str, directory: Path) -> str:
    """Without the places of this machine: source files as seen from gates.yaml, those of packages as they are imported;
    and without debug information, in which there are more of them. Lines need the section of names alone."""
    ptx = re.sub(r"^\t\.section\t\.debug_(?!str\b)\w+\s*\{.*?\}\n", "", ptx, flags=re.MULTILINE | re.DOTALL)
    home = os.path.realpath(directory)

    def rename(found: "re.Match[str]") -> str:
        package = re.search(r"/(?:site|dist)-packages/(.*)", found[2])
        file = package[1] if package else os.path.relpath(os.path.realpath(found[2]), home)
        return f'{found[1]}"{file}"'

    return re.sub(r'^(\t\.file\t\d+ )"(/[^"]*)"', rename, ptx, flags=re.MULTILINE)
