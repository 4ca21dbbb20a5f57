"""The pytest plugin, in tests that a pytest of its own runs. Needs Triton and the program, no GPU."""

import importlib.metadata
import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent

# The pytest that runs tests has a home of its own, without a compiler.
CACHE = os.environ.get("GATEKEEPER_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "gatekeeper")


TEST = """
import kernels
import pytest
from gatekeeper import Tensor

CALL = dict(
    args={"x": Tensor("f32", ["N"]), "y": Tensor("f32", ["N"]), "out": Tensor("f32", ["N"], "out"), "n": "N", "BLOCK": 256},
    grid="ceil_div(N, BLOCK)", shapes={"small": {"N": 1000}},
    reference={"binary": {"a": "x", "b": "y", "out": "out", "op": "add"}},
)

"""

DESCRIPTOR = """
CALL = dict(
    args={"x": Tensor("f32", ["R", 64]), "out": Tensor("f32", ["R", 64], "out"), "rows": "R", "COLUMNS": 64, "BLOCK": 64},
    grid="ceil_div(R, BLOCK)", shapes={"small": {"R": 100}}, reference={"unary": {"x": "x", "out": "out", "op": "copy"}},
)

"""

MARKED = "@pytest.mark.gatekeeper(max_err=0)\ndef test_{name}(gate):\n    gate(kernels.{kernel}, **CALL)\n\n"


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEKEEPER_CACHE", str(CACHE))


def run(pytester: pytest.Pytester, text: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(test_kernels=text)
    pytester.path.joinpath("kernels.py").write_text((HERE / "kernels.py").read_text())
    installed = importlib.metadata.entry_points(group="pytest11", name="gatekeeper")
    plugin = [] if installed else ["-p", "gatekeeper.pytest_plugin"]
    return pytester.runpytest_subprocess(*plugin, "--gatekeeper-device=sim", "-rs", "-W", "ignore", *arguments)


def test_a_right_kernel_passes_and_a_wrong_one_fails_with_its_line(pytester: pytest.Pytester) -> None:
    text = TEST + MARKED.format(name="right", kernel="add") + MARKED.format(name="wrong", kernel="past_the_end")
    result = run(pytester, text)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*past_the_end/default@small  kernel faulted*", "*kernels.py", "*20 *b = tl.load(y + at)*"])
    assert "Traceback" not in result.stdout.str()
    assert (pytester.path / "gates" / "add.ptx").exists()


def test_gates_that_need_a_gpu_are_named(pytester: pytest.Pytester) -> None:
    text = TEST + MARKED.format(name="add", kernel="add").replace("max_err=0", 'max_err=0, p50="1ms"')
    result = run(pytester, text)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*gatekeeper: gates that were not judged*", "test_kernels.py::test_add: p50: *"])


def test_a_test_of_which_nothing_was_judged_is_skipped(pytester: pytest.Pytester) -> None:
    """The simulator knows no tensor maps that a kernel makes."""
    result = run(pytester, TEST + DESCRIPTOR + MARKED.format(name="tma", kernel="with_descriptor"))
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*gatekeeper judged none of these gates here: max_err: *"])


def test_a_revision_to_compare_with(pytester: pytest.Pytester) -> None:
    text = TEST + MARKED.format(name="add", kernel="add")
    run(pytester, text).assert_outcomes(passed=1)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t.example", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "-q"], ["add", "kernels.py", "test_kernels.py", "gates"], ["commit", "-q", "-m", "base"]):
        subprocess.run([*git, *arguments], cwd=pytester.path, check=True)
    run(pytester, text, "--gatekeeper-base=HEAD").assert_outcomes(passed=1)
    loosened = run(pytester, text.replace("max_err=0", "max_err=1"), "--gatekeeper-base=HEAD")
    loosened.assert_outcomes(failed=1)
    loosened.stdout.fnmatch_lines(["*loosened*"])
    run(pytester, text, "--gatekeeper-base=nowhere").assert_outcomes(failed=1)


@pytest.mark.parametrize(
    "test, said",
    [
        ("@pytest.mark.gatekeeper(max_err=0)\ndef test_mark(gate):\n    pass\n", "*gives it no kernel*"),
        ("def test_mark(gate):\n    gate(kernels.add, **CALL)\n", "*say which gates the kernel has*"),
        (MARKED.format(name="a", kernel="add") + MARKED.format(name="b", kernel="add"), "*has a kernel `add`, too*"),
        (MARKED.format(name="a", kernel="add").replace("max_err", "regs"), "*exit code 2*"),
    ],
)
def test_a_test_that_gates_nothing_fails(pytester: pytest.Pytester, test: str, said: str) -> None:
    result = run(pytester, TEST + test)
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines([said])


def test_a_failure_of_the_test_itself_is_shown_as_it_is(pytester: pytest.Pytester) -> None:
    result = run(pytester, TEST + "@pytest.mark.gatekeeper(max_err=0)\ndef test_own(gate):\n    assert 1 == 2\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert 1 == 2*"])
    assert "gives it no kernel" not in result.stdout.str()
