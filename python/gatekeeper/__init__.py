"""gatekeeper from Python.

- ``region`` marks the parts of a program that ``gatekeeper capture`` looks at.
- ``export`` puts a Triton kernel under gate: its PTX and its entry in a gates.yaml, without a GPU.
- The pytest plugin has the fixture ``gate``, which exports a kernel and runs its gates.

docs/python.md has examples. The package needs nothing but the program ``gatekeeper``; Triton, NumPy and pytest are the
user's own.
"""

from __future__ import annotations

from gatekeeper._export import Exported, export
from gatekeeper._region import region
from gatekeeper._tensor import Tensor
from gatekeeper._triton import ExportError

__all__ = ["ExportError", "Exported", "Tensor", "export", "region"]
