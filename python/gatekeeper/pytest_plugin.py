"""A mark and a fixture for tests that put kernels under gate.

    @pytest.mark.gatekeeper(p50="+1% of base", registers="+0")
    def test_decode():
        ...

The test runs as it is. If it passes, ``gatekeeper run`` runs it again as a program, captures what it launches, and judges
that: against another revision with ``--gatekeeper-base=main``.

    @pytest.mark.gatekeeper(max_err=0, registers=32, p50="+1% of base")
    def test_add(gate):
        gate(add, args={...}, grid="ceil_div(N, BLOCK)", shapes={...}, reference=...)

``gate`` takes what ``gatekeeper.export`` does, but the gates, which the mark has. It exports the kernel into ``gates/``
next to the test and runs its gates.

Both fail the test with what gatekeeper says. A machine without a GPU has the simulator: gates that only a GPU can judge are
named at the end of the session, and a test in which no gate was judged is skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest
from pathlib import Path
from typing import Any, Dict, Generator, List, Mapping, Optional, Sequence, Union

import pytest

from gatekeeper import _export, _program, _region
from gatekeeper._tensor import Extent

#: Which test wrote a kernel or a program, by its file of gates and its name.
_EXPORTED = pytest.StashKey[Dict[str, str]]()
#: The exit code of a run in which a gate does not hold.
_FAILED = 1

#: Properties of reports, which come from other processes, too: gates that were not judged, and files that were written.
_NOT_JUDGED, _WRITTEN = "gatekeeper not judged", "gatekeeper wrote"
#: Whether a test ran in the region that gatekeeper captures.
_HAS_RUN = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gatekeeper")
    group.addoption("--gatekeeper-base", metavar="REF", help="compare kernels with this revision: branch, tag or commit")
    group.addoption("--gatekeeper-device", metavar="DEVICE", default="auto", help="where kernels run: auto, cuda or sim")
    # gatekeeper runs a test as a program.
    group.addoption("--gatekeeper-region", metavar="NAME", help=argparse.SUPPRESS)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gatekeeper(**gates): gates of the kernels that a test launches, or gives to `gate`")
    config.stash[_EXPORTED] = {}
    config.stash[_HAS_RUN] = False
    if config.getoption("--gatekeeper-region") is not None and hasattr(config.option, "dist"):
        # The one test needs no processes of pytest-xdist.
        config.option.dist = "no"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """pytest calls others in ways of their own, in which their marks would be without effect."""
    if not item.get_closest_marker("gatekeeper"):
        return
    if not isinstance(item, pytest.Function) or (item.cls and issubclass(item.cls, unittest.TestCase)):
        pytest.fail("the mark `gatekeeper` is for functions, and for methods of classes that are no TestCase", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    region: Optional[str] = pyfuncitem.config.getoption("--gatekeeper-region")
    if region is not None:
        with _region.region(region):
            result = yield
        pyfuncitem.config.stash[_HAS_RUN] = True
        return result
    result = yield
    gate = pyfuncitem.funcargs.get("gate")
    if isinstance(gate, Gate):
        if not gate.kernels:
            pytest.fail("the test has the fixture `gate`, and gives it no kernel", pytrace=False)
    elif pyfuncitem.get_closest_marker("gatekeeper"):
        _run_as_program(pyfuncitem)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A test that is skipped under gatekeeper launches nothing: its last lines say why."""
    config = session.config
    if config.getoption("--gatekeeper-region") is not None and session.exitstatus == 0 and not config.stash[_HAS_RUN]:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [it for each in terminalreporter.stats.values() for it in each if getattr(it, "when", None) == "call"]
    for title, key in (("gates that were not judged", _NOT_JUDGED), ("files that were written: commit them", _WRITTEN)):
        lines = [str(line) for report in reports for name, line in report.user_properties if name == key]
        if lines:
            terminalreporter.section(f"gatekeeper: {title}")
        for line in lines:
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
        gates = _find_gates(self._request.node)
        directory = self._request.path.parent / "gates" if to is None else Path(to)
        exported = _export.export(
            kernel, args, grid, shapes=shapes, reference=reference, gates=gates, to=directory, **rest
        )
        self.kernels += 1
        _claim(self._config, exported.config, exported.name, self._test)
        command = _command(self._config, exported.config, self._out / exported.name, exported.name)
        _judge(self._request.node, command, self._out / exported.name, gates)
        return exported


def _run_as_program(item: pytest.Function) -> None:
    """What the test launches, captured by `gatekeeper run` in copies of its repository."""
    __tracebackhide__ = True
    config = item.config
    mark = _find_gates(item)
    try:
        program = _program.write(item.path, item.nodeid, config.rootpath, config.inipath, mark)
    except _program.NoProgram as error:
        pytest.fail(str(error), pytrace=False)
    _claim(config, program.config, program.name, item.nodeid)
    if program.is_new:
        item.user_properties.append((_WRITTEN, os.path.relpath(program.config, config.invocation_params.dir)))
    gates = {key: value for key, value in mark.items() if key not in _program.KEYS}
    # The program's python3 is this one.
    environment = dict(os.environ)
    environment["PATH"] = os.path.dirname(sys.executable) + os.pathsep + environment.get("PATH", os.defpath)
    if sys.prefix != sys.base_prefix:
        environment["VIRTUAL_ENV"] = sys.prefix
    with tempfile.TemporaryDirectory(prefix="gatekeeper-") as out:
        command = _command(config, program.config, Path(out), program.name)
        _judge(item, command, Path(out), gates, environment)


def _find_gates(item: Any) -> Mapping[str, object]:
    __tracebackhide__ = True
    mark = item.get_closest_marker("gatekeeper")
    if mark is None or mark.args or not set(mark.kwargs) - set(_program.KEYS):
        pytest.fail("say which gates the kernel has: @pytest.mark.gatekeeper(max_err=1e-5, registers=64)", pytrace=False)
    gates: Mapping[str, object] = mark.kwargs
    return gates


def _claim(config: pytest.Config, file: Path, name: str, test: str) -> None:
    """A kernel or program is of one test."""
    __tracebackhide__ = True
    first = config.stash[_EXPORTED].setdefault(f"{file.resolve()}:{name}", test)
    if first != test:
        pytest.fail(f"{first} has a kernel `{name}`, too: give one of them another name", pytrace=False)


def _command(config: pytest.Config, file: Path, out: Path, name: str) -> List[str]:
    command = [_find_program(), "run", "--provision", "--config", str(file), "--out", str(out)]
    command += ["--device", config.getoption("--gatekeeper-device")]
    base: Optional[str] = config.getoption("--gatekeeper-base")
    command += ["--base", base] if base else []
    return [*command, name]


def _judge(
    item: Any,
    command: Sequence[str],
    out: Path,
    gates: Mapping[str, object],
    environment: Optional[Mapping[str, str]] = None,
) -> None:
    """Fails the test where a gate does not hold, and skips it where none was judged."""
    __tracebackhide__ = True
    # It has deadlines of its own for all that it runs.
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    if ran.returncode == _FAILED:
        pytest.fail(ran.stdout.strip(), pytrace=False)
    file = out / "report.json"
    report = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    if report is None or (ran.returncode != 0 and report["conclusion"] != "nothing_judged"):
        said = f"{ran.stdout.strip()}\n{ran.stderr.strip()}".strip()
        pytest.fail(f"gatekeeper ended with exit code {ran.returncode}\n{said}", pytrace=False)
    # The output of a launch has a limit on its error.
    metrics = {"max_err" if key == "output" else key for key in gates}
    asked = [it for it in report["verdicts"] if it["metric"] in metrics]
    left_out = [it for it in report["verdicts"] if it["metric"] is None and it["outcome"] == "unsupported"]
    why = [f"{it['metric'] or it['gate']}: {it['message']}" for it in asked + left_out if it["outcome"] != "pass"]
    base = report.get("base") or {}
    if base.get("new"):
        file = Path(command[command.index("--config") + 1])
        why.append(f"base: {base['revision']} has nothing to compare with: is {file.name} committed there?")
    why = list(dict.fromkeys(why))
    if not any(it["outcome"] == "pass" for it in asked):
        pytest.skip("gatekeeper judged none of these gates here: " + "; ".join(why or sorted(gates)))
    item.user_properties += [(_NOT_JUDGED, f"{item.nodeid}: {line}") for line in why]


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
