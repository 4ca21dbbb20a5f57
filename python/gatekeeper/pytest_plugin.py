"""A fixture for tests that put Triton kernels under gate.

    @pytest.mark.gatekeeper(max_err=0, registers=32, p50="+1% of base")
    def test_add(gate):
        gate(add, args={...}, grid="ceil_div(N, BLOCK)", shapes={...}, reference=...)

``gate`` takes what ``gatekeeper.export`` does, but the gates, which the mark has. It exports the kernel into ``gates/``
next to the test, runs its gates, and fails the test with what gatekeeper says. A machine without a GPU has the simulator:
gates that only a GPU can judge are named at the end of the session, and a test in which no gate was judged is skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any, Dict, Generator, List, Mapping, Optional, Sequence, Union

import pytest

from gatekeeper import _export
from gatekeeper._tensor import Extent

#: Which test exported a kernel, by its file of gates and its name.
_EXPORTED = pytest.StashKey[Dict[str, str]]()
#: The exit code of a run in which a gate does not hold.
_FAILED = 1

#: Gates of marks that were not judged: `test: p50: why`.
_NOT_JUDGED = pytest.StashKey[List[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gatekeeper")
    group.addoption("--gatekeeper-base", metavar="REF", help="compare kernels with this revision: branch, tag or commit")
    group.addoption("--gatekeeper-device", metavar="DEVICE", default="auto", help="where kernels run: auto, cuda or sim")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gatekeeper(**gates): gates of the kernels that a test gives to the fixture `gate`")
    config.stash[_EXPORTED] = {}
    config.stash[_NOT_JUDGED] = []


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """A test that only looks as if it gated a kernel would always pass."""
    gate = pyfuncitem.funcargs.get("gate")
    if pyfuncitem.get_closest_marker("gatekeeper") and not isinstance(gate, Gate):
        pytest.fail(
            "the mark `gatekeeper` has the gates of a kernel that the test gives to the fixture `gate`; without one"
            " nothing is judged (the kernels that a test launches by itself cannot be gated yet)",
            pytrace=False,
        )
    result = yield
    if isinstance(gate, Gate) and not gate.kernels:
        pytest.fail("the test has the fixture `gate`, and gives it no kernel", pytrace=False)
    return result


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.stash[_NOT_JUDGED]:
        terminalreporter.section("gatekeeper: gates that were not judged")
        for line in config.stash[_NOT_JUDGED]:
            terminalreporter.write_line(line)


class Gate:
    """The fixture: call it with a kernel."""

    def __init__(self, request: pytest.FixtureRequest, out: Path) -> None:
        self._request = request
        self._config: pytest.Config = request.config
        self._test: str = request.node.nodeid
        self._out = out
        #: That were given to it.
        self.kernels = 0

    def __call__(
        self,
        kernel: Any,
        args: Mapping[str, object],
        grid: Union[Extent, Sequence[Extent]],
        *,
        shapes: _export.Shapes,
        reference: _export.Reference,
        to: Union[str, "os.PathLike[str]", None] = None,
        **rest: Any,
    ) -> _export.Exported:
        """As `gatekeeper.export`; then runs the kernel's gates, and fails the test where one does not hold."""
        __tracebackhide__ = True
        mark = self._request.node.get_closest_marker("gatekeeper")
        if mark is None or mark.args or not mark.kwargs:
            pytest.fail("say which gates the kernel has: @pytest.mark.gatekeeper(max_err=1e-5, registers=64)", pytrace=False)
        directory = self._request.path.parent / "gates" if to is None else Path(to)
        exported = _export.export(
            kernel, args, grid, shapes=shapes, reference=reference, gates=mark.kwargs, to=directory, **rest
        )
        self.kernels += 1
        first = self._config.stash[_EXPORTED].setdefault(f"{directory.resolve()}:{exported.name}", self._test)
        if first != self._test:
            pytest.fail(f"{first} exports a kernel `{exported.name}`, too: give one of them a `name`", pytrace=False)
        self._run(exported, mark.kwargs)
        return exported

    def _run(self, exported: _export.Exported, gates: Mapping[str, object]) -> None:
        __tracebackhide__ = True
        out = self._out / exported.name
        command = [_find_program(), "run", "--provision", "--config", str(exported.config), "--out", str(out)]
        command += ["--device", self._config.getoption("--gatekeeper-device")]
        base: Optional[str] = self._config.getoption("--gatekeeper-base")
        command += ["--base", base] if base else []
        # It has deadlines of its own for all that it runs.
        ran = subprocess.run([*command, exported.name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if ran.returncode == _FAILED:
            pytest.fail(ran.stdout.strip(), pytrace=False)
        if ran.returncode != 0:
            said = f"{ran.stdout.strip()}\n{ran.stderr.strip()}".strip()
            pytest.fail(f"gatekeeper ended with exit code {ran.returncode}\n{said}", pytrace=False)
        report = json.loads((out / "report.json").read_text(encoding="utf-8"))
        judged = [it for it in report["verdicts"] if it["metric"] in gates and it["outcome"] == "pass"]
        open_ = {it["metric"]: it["message"] for it in report["verdicts"] if it["metric"] in gates and it["outcome"] != "pass"}
        why = [f"{metric}: {message}" for metric, message in open_.items()]
        if not judged:
            pytest.skip("gatekeeper judged none of these gates here: " + "; ".join(why or sorted(gates)))
        self._config.stash[_NOT_JUDGED] += [f"{self._test}: {line}" for line in why]


def _find_program() -> str:
    """That of this environment, before one on PATH."""
    __tracebackhide__ = True
    beside = Path(sysconfig.get_path("scripts")) / "gatekeeper"
    found = str(beside) if beside.exists() else shutil.which("gatekeeper")
    if found is None:
        pytest.fail("there is no program gatekeeper: python3 -m pip install gatekeeper-cuda", pytrace=False)
    return found


@pytest.fixture
def gate(request: pytest.FixtureRequest, tmp_path: Path) -> Gate:
    """Puts a Triton kernel under the gates of the mark `gatekeeper`."""
    return Gate(request, tmp_path / "gatekeeper-out")
