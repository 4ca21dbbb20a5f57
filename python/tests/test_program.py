"""The mark on tests that launch kernels of their own, in a pytest of its own. The driver is one without a GPU, as in
tests/it/programs.rs. Needs the program and a C compiler, neither Triton nor a GPU."""

import importlib.metadata
import re
import shutil
import subprocess
from pathlib import Path
from typing import Callable

import pytest
from gatekeeper import _program
from test_plugin import CACHE

DRIVER = Path(__file__).parents[2] / "tests" / "fixtures" / "capture" / "driver.c"

KERNEL = """
struct View { const float *data; long n; };
extern "C" __global__ void scale(View in, float factor, float *out) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    BODY
}
"""
RIGHT = "if (i < in.n) out[i] = in.data[i] * factor;"
WRONG_IN_THE_TAIL = "if (i < in.n) out[i] = i == 999 ? 1 : in.data[i] * factor;"
# It computes the same.
MORE_REGISTERS = """
    float a[24];
    #pragma unroll
    for (int k = 0; k < 24; k++) a[k] = i + k < in.n ? in.data[i + k] : 0;
    float sum = 0;
    #pragma unroll
    for (int k = 0; k < 24; k++) sum = sum * a[23 - k] + a[k];
    if (i < in.n) out[i] = sum == 0.125f ? 2 : in.data[i] * factor;
"""

CONFTEST = """
import ctypes, pathlib, struct
import pytest

@pytest.fixture
def launch():
    cuda = ctypes.CDLL("libcuda.so.1")
    image = ctypes.create_string_buffer((pathlib.Path(__file__).parent / "kernels.fatbin").read_bytes(), 1 << 20)
    module, function, data, out = (ctypes.c_void_p() for _ in range(4))
    assert not cuda.cuModuleLoadData(ctypes.byref(module), image)
    for pointer in data, out:
        assert not cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(4000))
    assert not cuda.cuMemcpyHtoD_v2(data, (ctypes.c_float * 1000)(*range(1000)), ctypes.c_size_t(4000))
    values = [ctypes.create_string_buffer(struct.pack("<Qq", data.value, 1000)), ctypes.c_float(3), out]
    parameters = (ctypes.c_void_p * 3)(*map(ctypes.addressof, values))
    assert not cuda.cuModuleGetFunction(ctypes.byref(function), module, b"scale")
    def run(kept=values):
        assert not cuda.cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, None, parameters, None)
    # Outside of the test, and so no launch of it.
    run()
    assert not cuda.cuMemcpyHtoD_v2(out, (ctypes.c_float * 1000)(), ctypes.c_size_t(4000))
    return run
"""

TEST = """
import pytest

@pytest.mark.gatekeeper(MARK)
def test_scale(launch):
    launch()
"""
MARK = 'p50="+1% of base", registers="+0", output="same"'

Compile = Callable[..., None]


@pytest.fixture(scope="session")
def compile_into(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """By the compiler that gates are for."""
    program = shutil.which("gatekeeper")
    assert program is not None
    subprocess.run([program, "toolchain", "install"], check=True, capture_output=True)
    shown = subprocess.run([program, "toolchain", "show"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"nvcc \S+ at (\S+)", shown)
    assert found, shown
    forms = ["-gencode=arch=compute_90,code=sm_90", "-gencode=arch=compute_90,code=compute_90"]

    def compile_into(directory: Path, body: str, *, has_ptx: bool = True) -> None:
        source = tmp_path_factory.mktemp("kernel") / "k.cu"
        source.write_text(KERNEL.replace("BODY", body))
        out = str(directory / "kernels.fatbin")
        subprocess.run([found[1], "-fatbin", *forms[: 1 + has_ptx], "-o", out, str(source)], check=True)

    return compile_into


@pytest.fixture
def project(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compile_into: Compile
) -> pytest.Pytester:
    """A repository with a test of a kernel that is right."""
    monkeypatch.setenv("GATEKEEPER_CACHE", str(CACHE))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    driver = ["cc", "-shared", "-fPIC", "-w", "-o", str(tmp_path / "libcuda.so.1"), str(DRIVER), "-ldl"]
    subprocess.run(driver, check=True)
    pytester.makeconftest(CONFTEST)
    installed = importlib.metadata.entry_points(group="pytest11", name="gatekeeper")
    pytester.makeini("[pytest]\n" + ("" if installed else "addopts = -p gatekeeper.pytest_plugin\n"))
    pytester.path.joinpath(".gitignore").write_text("__pycache__\n")
    compile_into(pytester.path, RIGHT)
    git(pytester, "init", "-q")
    return pytester


def git(project: pytest.Pytester, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@t.example", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=project.path, check=True)


def commit(project: pytest.Pytester) -> None:
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "as it is")


def run(project: pytest.Pytester, *arguments: str, test: str = TEST, mark: str = MARK) -> pytest.RunResult:
    project.makepyfile(test_bench=test.replace("MARK", mark))
    return project.runpytest_subprocess("--gatekeeper-device=sim", "-rs", "-W", "ignore", "-p", "no:cacheprovider", *arguments)


def test_an_edit_is_held_to_its_base(project: pytest.Pytester, compile_into: Compile) -> None:
    # Without a base the output is that of the program.
    first = run(project)
    first.assert_outcomes(passed=1)
    first.stdout.fnmatch_lines(
        [
            "*gates that were not judged*",
            "*test_scale: p50: *",
            "*test_scale: registers: new*",
            "*commit them*",
            "gates/test_bench-test_scale.gates.yaml",
        ]
    )
    # A base that lacks the file gives nothing to compare with.
    git(project, "add", "test_bench.py")
    git(project, "commit", "-q", "-m", "without its file")
    lacking = run(project, "--gatekeeper-base=HEAD")
    lacking.stdout.fnmatch_lines(["*test_scale: base: HEAD has nothing to compare with: is test_bench-test_scale.gates.yaml committed*"])
    assert "commit them" not in lacking.stdout.str()
    run(project, "--gatekeeper-base=HEAD", mark='registers="+0"').assert_outcomes(skipped=1)

    run(project)
    commit(project)
    same = run(project, "--gatekeeper-base=HEAD")
    same.assert_outcomes(passed=1)
    assert "registers" not in same.stdout.str()

    # The driver computes the same whatever the module says: only the replay sees it.
    compile_into(project.path, WRONG_IN_THE_TAIL)
    wrong = run(project, "--gatekeeper-base=HEAD")
    wrong.assert_outcomes(failed=1)
    wrong.stdout.fnmatch_lines(["*test_scale/scale@launch1  max_err*", "*element 999 = 1, want *"])
    assert "Traceback" not in wrong.stdout.str()

    compile_into(project.path, MORE_REGISTERS)
    larger = run(project, "--gatekeeper-base=HEAD")
    larger.assert_outcomes(failed=1)
    larger.stdout.fnmatch_lines(["*registers *% more *+0*"])

    compile_into(project.path, RIGHT)
    looser = run(project, "--gatekeeper-base=HEAD", mark='p50="+3% of base", registers="+0"')
    looser.assert_outcomes(failed=1)
    looser.stdout.fnmatch_lines(["*loosened*"])


@pytest.mark.parametrize(
    "test, mark, said",
    [
        (TEST.replace("launch()", "pass"), MARK, "*program failed*"),
        (TEST.replace("launch()", "pass").replace("(launch)", "()"), MARK, "*used no CUDA function*"),
        (TEST, 'registers=64, kernels=["*gemm*"]', "*no launch of these kernels is in one of these regions*"),
        (TEST, "registers=8", "*registers 10, limit <= 8*"),
        (TEST, "regs=8", "*exit code 2*"),
        (TEST, "launches=2", "*say which gates*"),
        (TEST.replace("launch()", "assert 1 == 2"), MARK, "*assert 1 == 2*"),
        ("import unittest\n" + TEST.replace("@", "class TestIt(unittest.TestCase):\n  @").replace("def", "  def"), MARK, "*TestCase*"),
        # It is skipped where gatekeeper runs it.
        (TEST.replace("launch()", "launch()\n    import os\n    os.environ.get('OUTSIDE') or pytest.skip('inside')"), MARK, "*inside*"),
    ],
)
def test_a_test_that_gates_nothing_fails(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, test: str, mark: str, said: str
) -> None:
    monkeypatch.setenv("OUTSIDE", "1")
    result = run(project, test=test, mark=mark)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([said])


def test_a_test_outside_of_a_repository_fails(project: pytest.Pytester) -> None:
    shutil.rmtree(project.path / ".git")
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*is in no git repository*"])


def test_a_test_that_is_skipped_is_not_run_again(project: pytest.Pytester) -> None:
    run(project, test=TEST.replace("launch()", "pytest.skip('here')")).assert_outcomes(skipped=1)
    assert not (project.path / "gates").exists()


def test_a_kernel_that_the_simulator_cannot_run_is_skipped_by_name(project: pytest.Pytester, compile_into: Compile) -> None:
    compile_into(project.path, RIGHT, has_ptx=False)
    result = run(project)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*judged none of these gates here: *no PTX*"])


def test_tests_of_classes_and_parameters_have_files_of_their_own(project: pytest.Pytester) -> None:
    project.mkdir("below")
    test = """
import pytest

class TestScale:
    @pytest.mark.parametrize("dtype", ["f32", "b f'16"])
    @pytest.mark.gatekeeper(registers=10, launches=2, kernels=["sc*"], deadline="100s", build="touch built")
    def test_it(self, launch, dtype):
        launch()
        launch()
"""
    project.path.joinpath("below", "test_more.py").write_text(test)
    result = project.runpytest_subprocess("--gatekeeper-device=sim", "-W", "ignore", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2)
    files = sorted(path.name for path in (project.path / "below" / "gates").iterdir())
    assert files[0].startswith("test_more-TestScale-test_it-b-f-16-")
    assert files[1:] == ["test_more-TestScale-test_it-f32.gates.yaml"]
    written = (project.path / "below" / "gates" / files[1]).read_text()
    assert "launches: 2" in written and 'build: "cd ../.. && touch built"' in written
    assert not (project.path / "built").exists()


def test_a_file_of_somebody_else_is_left_alone(project: pytest.Pytester) -> None:
    own = project.mkdir("gates") / "test_bench-test_scale.gates.yaml"
    own.write_text("version: 1\n")
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*was not written by this plugin*"])
    assert own.read_text() == "version: 1\n"


def test_names_that_lose_letters_stay_apart() -> None:
    assert _program._name("test_a[f16-1024]") == "test_a-f16-1024"
    assert len({_program._name(f"test_a[{each}]") for each in ("a.b", "a b", "a-b", "é", "ü")}) == 5
