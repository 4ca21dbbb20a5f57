"""`export`: what it writes, and what it refuses. Needs Triton, no GPU."""

import importlib.util
import re
from pathlib import Path
from typing import Any, Dict

import kernels
import pytest

from gatekeeper import Exported, ExportError, Tensor, export

REFERENCE = {"binary": {"a": "x", "b": "y", "out": "out", "op": "add"}}


def add(to: Path, **changes: Any) -> Exported:
    call: Dict[str, Any] = {
        "kernel": kernels.add,
        "args": {"x": Tensor("f32", ["N"]), "y": Tensor("f32", ["N"]), "out": Tensor("f32", ["N"], "out"), "n": "N", "BLOCK": 256},
        "grid": "ceil_div(N, BLOCK)",
        "shapes": {"small": {"N": 1000}},
        "reference": REFERENCE,
        "gates": {"max_err": 0},
        "to": to,
    }
    call.update(changes)
    return export(call.pop("kernel"), call.pop("args"), call.pop("grid"), **call)


def args(**changes: Any) -> Dict[str, Any]:
    given = {"x": Tensor("f32", ["N"]), "y": Tensor("f32", ["N"]), "out": Tensor("f32", ["N"], "out"), "n": "N", "BLOCK": 256}
    given.update(changes)
    return given


def test_the_entry_has_all_that_a_launch_needs(tmp_path: Path) -> None:
    exported = add(tmp_path, num_warps=8)
    text = exported.config.read_text().splitlines()
    assert text[1:5] == ["version: 1", "architectures: [sm_90a]", 'toolchain: {cuda: "13.0"}', "kernels:"]
    hidden = exported.ptx.read_text().split(".entry")[1].split(")")[0].count(".param") - 4
    assert hidden in (1, 2)
    assert text[5:] == [
        "  add:",
        "    source: add.ptx",
        "    entry: add",
        "    shapes:",
        "      small: {N: 1000, BLOCK: 256}",
        "    tensors:",
        "      x: {type: f32, shape: [N]}",
        "      y: {type: f32, shape: [N]}",
        "      out: {role: out, type: f32, shape: [N]}",
        "    args: [{tensor: x}, {tensor: y}, {tensor: out}, {i32: N}" + ", nullptr" * hidden + "]",
        '    launch: {grid: ["ceil_div(N, BLOCK)"], block: [256]}',
        "    reference: {binary: {a: x, b: y, out: out, op: add}}",
        "    gates: {max_err: 0}",
    ]


def test_the_ptx_is_one_that_the_compiler_reads(tmp_path: Path) -> None:
    def version(cuda: str) -> str:
        made = add(tmp_path / cuda, cuda=cuda).ptx.read_text()
        return re.findall(r"^\.version (.*)", made, re.MULTILINE)[0]

    assert [float(version(cuda)) <= most for cuda, most in (("13.0", 9.0), ("12.6", 8.5), ("12.4", 8.4))] == [True] * 3
    assert version("12.4") == "8.4"


def test_the_ptx_names_no_place_of_this_machine(tmp_path: Path) -> None:
    call: Dict[str, Any] = dict(shapes={"s": {"R": 4, "C": 100}}, reference="none", gates={"max_err": 0}, to=tmp_path)
    given = {"x": Tensor("f32", ["R", "C"]), "out": Tensor("f32", ["R", "C"], "out"), "stride": "C", "columns": "C", "by": 2.0, "BLOCK": 128}
    exported = export(kernels.scale_rows, given, "R", **call)
    text = exported.ptx.read_text()
    files = re.findall(r'^\t\.file\t\d+ "(.*)"', text, re.MULTILINE)
    assert sorted(Path(file).name for file in files) == ["kernels.py", "standard.py"]
    assert "triton/language/standard.py" in files
    assert not [file for file in files if file.startswith("/")]
    assert (tmp_path / [file for file in files if file.endswith("kernels.py")][0]).samefile(kernels.__file__)
    # Debug information has absolute places, too.
    assert ".debug_info" not in text
    assert "{f32: 2.0}" in exported.config.read_text()
    # The sum over a row goes through shared memory.
    assert "dynamic_shared: " in exported.config.read_text()


def test_lines_are_those_of_the_file_and_not_of_a_copy(tmp_path: Path) -> None:
    """Triton's cache knows the text of a kernel, and not where it is."""
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "copied.py").write_text(Path(kernels.__file__).read_text())
        found = importlib.util.spec_from_file_location("copied", tmp_path / place / "copied.py")
        assert found and found.loader
        copied = importlib.util.module_from_spec(found)
        found.loader.exec_module(copied)
        ptx = add(tmp_path / place, kernel=copied.add).ptx.read_text()
        assert '"copied.py"' in ptx, re.findall(r"\.file.*", ptx)


def test_integers_are_specialised_as_triton_does_at_all_shapes(tmp_path: Path) -> None:
    def loads(**dims: int) -> int:
        shapes = {name: {"N": n} for name, n in dims.items()}
        return len(re.findall(r"ld\.global\.v2", add(tmp_path, shapes=shapes).ptx.read_text()))

    # A mask of a multiple of 16 lets Triton load several at a time.
    assert loads(a=1024) > 0
    assert loads(a=1024, b=4096) > 0
    assert loads(a=1024, b=1000) == 0
    # One at every shape is compiled in, and is no argument.
    assert "{i32: N}" not in add(tmp_path, shapes={"a": {"N": 1}}).config.read_text()
    assert "{i64: N}" in add(tmp_path, shapes={"a": {"N": 2**31}}).config.read_text()


def test_scratch_memory_of_blocks_is_a_tensor(tmp_path: Path) -> None:
    given = {"x": Tensor("f32", ["R", 64]), "out": Tensor("f32", ["R", 64], "out"), "rows": "R", "COLUMNS": 64, "BLOCK": 64}
    call: Dict[str, Any] = dict(shapes={"s": {"R": 100}}, reference="none", gates={"max_err": 0}, to=tmp_path)
    text = export(kernels.with_descriptor, given, ["ceil_div(R, BLOCK)", 2], **call).config.read_text()
    assert re.search(r'global_scratch: \{role: scratch, type: u8, shape: \["\(ceil_div\(R, BLOCK\)\) \* \(2\) \* \d+"\]\}', text)
    assert re.search(r"\{i32: R\}, \{tensor: global_scratch\}(, nullptr)?\]", text)


def test_a_reference_is_a_function_of_a_file(tmp_path: Path) -> None:
    text = add(tmp_path, reference=kernels.sum_of).config.read_text()
    found = re.search(r'user: \{source: (\S+), function: sum_of, args: \[\{tensor: x\}, \{tensor: y\}, \{tensor: out\}\]\}', text)
    assert found and (tmp_path / found[1].strip('"')).samefile(kernels.__file__)
    with pytest.raises(ExportError, match="no function of a module"):
        add(tmp_path, reference=lambda x, y: x + y)
    with pytest.raises(ExportError, match="takes out, which is neither an input nor a number"):
        add(tmp_path, reference=kernels.in_place)
    given = args(out=Tensor("f32", ["N"], "inout"))
    assert "function: in_place, args: [{tensor: out}]" in add(tmp_path, args=given, reference=kernels.in_place).config.read_text()
    with pytest.raises(ExportError, match="does not take out, which the kernel reads and writes"):
        add(tmp_path, args=given, reference=kernels.sum_of)


def test_a_second_export_replaces_its_kernel_and_no_other(tmp_path: Path) -> None:
    add(tmp_path, name="b")
    first = add(tmp_path, name="a").config.read_text()
    assert re.findall(r"^  (\w+):", first, re.MULTILINE) == ["a", "b"]
    second = add(tmp_path, name="b", gates={"max_err": 1}).config.read_text()
    assert second == first[:-3] + "1}\n"
    stamp = (tmp_path / "b.ptx").stat().st_mtime_ns
    assert add(tmp_path, name="b", gates={"max_err": 1}).ptx.stat().st_mtime_ns == stamp


def test_somebody_elses_file_stays(tmp_path: Path) -> None:
    (tmp_path / "gates.yaml").write_text("version: 1\n")
    with pytest.raises(ExportError, match="was not written by export"):
        add(tmp_path)
    assert (tmp_path / "gates.yaml").read_text() == "version: 1\n"
    assert not (tmp_path / "add.ptx").exists()
    add(tmp_path / "other")
    with pytest.raises(ExportError, match="another architecture or compiler"):
        add(tmp_path / "other", cuda="13.1")


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"args": args(z=1)}, "has no parameter z; it has x, y, out, n, BLOCK"),
        ({"args": {"x": Tensor("f32", ["N"])}}, "has a parameter y, which `args` does not give"),
        ({"args": args(x=Tensor("f23", ["N"]))}, "'f23' is no type of a tensor"),
        ({"args": args(n="M")}, "n is 'M', which is no dimension of shape 'small': add one"),
        ({"args": args(x=[1])}, "x is list: give a gatekeeper.Tensor"),
        ({"shapes": {"s": {"N": 1000, "BLOCK": 128}}}, "BLOCK is 256 as a constant and 128 at shape 's'"),
        ({"shapes": {}}, "`shapes` has no shape"),
        ({"shapes": {"a": {"N": 8}, "b": {"N": 2**40}}}, "n is i32 and i64 at different shapes"),
        ({"num_warp": 8}, "num_warp: Triton has no such option"),
        ({"num_ctas": 2}, "its programs are clusters"),
        ({"arch": "hopper"}, "'hopper' is no architecture"),
        ({"cuda": "9.2"}, "'9.2' is no CUDA"),
        ({"name": "a b"}, "'a b' is no name of a kernel"),
        ({"kernel": kernels.tuned}, "export the function inside"),
        ({"kernel": kernels.sum_of}, "is no function with @triton.jit"),
        ({"args": args(BLOCK=100)}, "Triton .* does not compile add"),
        ({"gates": {"max_err": float("nan")}}, "not JSON compliant"),
    ],
)
def test_what_cannot_be_exported_says_what_to_do(tmp_path: Path, changes: Dict[str, Any], said: str) -> None:
    with pytest.raises(ExportError, match=said):
        add(tmp_path, **changes)
    assert not list(tmp_path.iterdir())
