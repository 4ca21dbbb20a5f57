"""Marks the parts of a program that ``gatekeeper capture`` looks at.

    import gatekeeper

    with gatekeeper.region("decode"):
        model(tokens)

    @gatekeeper.region("prefill")
    def prefill(prompt): ...

``gatekeeper capture --regions decode -- python bench.py`` then captures launches from inside of ``decode`` alone.
Without ``gatekeeper capture`` a region does nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Iterator, Optional


def _find_library() -> Optional[ctypes.CDLL]:
    """The library of ``gatekeeper capture``: it is in the process before Python starts, or not at all."""
    process = ctypes.CDLL(None)
    return process if hasattr(process, "gatekeeper_region_begin") else None


_library = _find_library()


@contextlib.contextmanager
def region(name: str) -> Iterator[None]:
    """A context manager, and a decorator, around launches that belong together.

    Regions nest, and hold for all threads of the process, since autograd launches from threads of its own. CUDA is
    asynchronous: a launch belongs to the regions that are open when the program asks for it.

    Raises ValueError for a name that is empty or has a slash or a NUL in it.
    """
    if not name or "/" in name or "\0" in name:
        raise ValueError(f"a region needs a name without slashes and NULs, and this is {name!r}")
    if _library is None:
        yield
        return
    encoded = name.encode()
    _library.gatekeeper_region_begin(encoded)
    try:
        yield
    finally:
        _library.gatekeeper_region_end(encoded)
