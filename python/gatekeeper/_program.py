"""Writes a test that launches kernels of its own as a program of gates.yaml."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import shlex
from pathlib import Path
from typing import Dict, List, Mapping, Optional

from gatekeeper import _gates

#: Keys of a program that a mark may have. All else in it are gates.
KEYS = ("build", "kernels", "launches", "deadline")

_MARK = "# Written by gatekeeper's plugin for pytest from the mark of a test. Change the mark there, and commit this file."


class NoProgram(ValueError):
    """The test cannot be run by gatekeeper, or its file is somebody's own."""


@dataclasses.dataclass(frozen=True)
class Program:
    """A program that is in a file of gates of its own: ``gatekeeper run --config CONFIG NAME``."""

    name: str
    config: Path
    #: The file was not there, or had something else.
    is_new: bool


def write(test: Path, nodeid: str, root: Path, ini: Optional[Path], mark: Mapping[str, object]) -> Program:
    """Writes ``gates/NAME.gates.yaml`` next to a test. ``root`` is pytest's directory, and ``ini`` its file.

    Raises NoProgram.
    """
    test = test.resolve()
    top = _find_top(test)
    # A tree of each side is all that its program gets.
    start = root.resolve() if _is_inside(root.resolve(), top) else top
    inner = nodeid.partition("::")[2]
    name = _name(inner)
    directory = test.parent / "gates"
    config = directory / f"{test.stem}-{name}.gates.yaml"
    into = f"cd {shlex.quote(os.path.relpath(start, directory))} && "
    words = ["python3", "-m", "pytest", "-p", "no:cacheprovider", "-rs", "--rootdir", "."]
    if ini is not None and _is_inside(ini.resolve(), start):
        words += ["-c", os.path.relpath(ini.resolve(), start)]
    words += [f"--gatekeeper-region={name}", f"{os.path.relpath(test, start)}::{inner}"]
    entry: Dict[str, object] = {"command": f"{into}exec {shlex.join(words)}"}
    if "build" in mark:
        build = mark["build"]
        entry["build"] = into + (build if isinstance(build, str) else shlex.join(map(str, _listed(build))))
    entry["regions"] = [name]
    entry.update({key: mark[key] for key in KEYS if key in mark and key != "build"})
    entry["gates"] = {key: value for key, value in mark.items() if key not in KEYS}
    try:
        lines = [_MARK, "version: 1", "programs:", *_gates.block(name, entry)]
    except ValueError as error:
        raise NoProgram(str(error)) from error
    text = "\n".join(lines) + "\n"
    was = config.read_text(encoding="utf-8") if config.exists() else ""
    if was and was.partition("\n")[0] != _MARK:
        raise NoProgram(f"{config} was not written by this plugin, which would lose what is in it: move it elsewhere")
    directory.mkdir(exist_ok=True)
    _gates.replace(config, text)
    return Program(name, config, was != text)


def _find_top(test: Path) -> Path:
    """Outside of a repository a program would get the directory of its file, without the test."""
    for directory in test.parents:
        if (directory / ".git").exists():
            return directory
    raise NoProgram(f"{test.name} is in no git repository: gatekeeper runs a test in a copy of its repository (git init)")


def _is_inside(path: Path, directory: Path) -> bool:
    return path == directory or directory in path.parents


def _name(inner: str) -> str:
    """That of a test in its file, in letters that names have; what loses any gets a hash."""
    plain = re.sub(r"\[([A-Za-z0-9_-]+)\]$", r"-\1", inner.replace("::", "-"))
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", plain).strip("-")[:100]
    return name if name == plain else f"{name}-{hashlib.sha256(inner.encode()).hexdigest()[:8]}"


def _listed(words: object) -> List[object]:
    if isinstance(words, (list, tuple)):
        return list(words)
    raise NoProgram(f"{words!r} is no command: write a line for the shell, or a list of words")
