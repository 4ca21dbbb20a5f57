"""Writes gates.yaml. A file that it writes it also owns: there is no YAML to be read but its own."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Iterator, List, Mapping, Tuple

#: A kernel's keys, in the order of the file.
Entry = Mapping[str, object]

_MARK = "# Written by gatekeeper.export in Python. Change the call there: the next export writes this file again."

#: Text that no version of YAML takes for anything else.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off"}


class NotOurs(ValueError):
    """The file is somebody's own, or has other architectures or another compiler."""


def flow(value: object) -> str:
    """A value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and value.lower() not in _WORDS else json.dumps(value)
    if isinstance(value, (int, float)):
        return json.dumps(value, allow_nan=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(key)}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(flow, value)) + "]"
    raise ValueError(f"{value!r} is nothing that gates.yaml has")


def block(name: str, entry: Entry) -> List[str]:
    """A kernel: the keys of `tensors` and `shapes` on lines of their own, everything else on one."""
    lines = [f"  {name}:"]
    for key, value in entry.items():
        if key in ("tensors", "shapes") and isinstance(value, Mapping):
            lines.append(f"    {key}:")
            lines += [f"      {flow(each)}: {flow(keys)}" for each, keys in value.items()]
        else:
            lines.append(f"    {key}: {flow(value)}")
    return lines


def write(file: Path, architecture: str, cuda: str, name: str, entry: Entry) -> None:
    """Puts a kernel into the file, in the place of one with its name; kernels are sorted by name."""
    head = [_MARK, "version: 1", f"architectures: [{architecture}]", f"toolchain: {{cuda: {json.dumps(cuda)}}}", "kernels:"]
    with _alone(file.parent):
        kernels = dict(_read(file, head))
        kernels[name] = block(name, entry)
        lines = head + [line for _, each in sorted(kernels.items()) for line in each]
        replace(file, "\n".join(lines) + "\n")


def _read(file: Path, head: List[str]) -> Iterator[Tuple[str, List[str]]]:
    if not file.exists():
        return
    lines = file.read_text(encoding="utf-8").splitlines()
    if lines[:1] != head[:1]:
        raise NotOurs(f"{file} was not written by export, which would lose what is in it: give another directory as `to`")
    if lines[: len(head)] != head:
        raise NotOurs(
            f"{file} has kernels for another architecture or compiler ({', '.join(lines[2:4])}): give another directory"
            " as `to`, or remove the file"
        )
    name = ""
    kernels: List[Tuple[str, List[str]]] = []
    for line in lines[len(head) :]:
        begun = re.fullmatch(r"  (\S+):", line)
        if begun:
            name = begun[1]
            kernels.append((name, []))
        if not kernels:
            raise NotOurs(f"{file} has been changed by hand: remove it, and export again")
        kernels[-1][1].append(line)
    yield from kernels


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Tests that run side by side export into one file."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def replace(file: Path, text: str) -> None:
    """As a whole, or not at all. A file that is right stays as it is, so that builds know it."""
    if file.exists() and file.read_bytes() == text.encode():
        return
    handle, made = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as out:
            out.write(text)
        os.chmod(made, 0o644)
        os.replace(made, file)
    except BaseException:
        os.unlink(made)
        raise
