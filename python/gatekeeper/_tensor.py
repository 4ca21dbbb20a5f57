"""Tensors as gates.yaml has them."""

from __future__ import annotations

import dataclasses
from typing import Dict, Optional, Sequence, Union

#: A number, or an expression over dimensions as in gates.yaml: ``"ceil_div(N, 2)"``.
Extent = Union[int, str]


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An argument that is a pointer, with the keys of gates.yaml.

    ``type`` is ``"f32"``, ``"f16"``, ``"bf16"``, ``"i32"``, ...; ``shape`` has the slowest dimension first; ``role`` is
    ``"in"``, ``"out"``, ``"inout"`` or ``"scratch"``; ``fill`` says how inputs are made, and is normal(0, 1) for floats.
    """

    type: str
    shape: Sequence[Extent]
    role: str = "in"
    fill: Optional[object] = None
    strides: Optional[Sequence[Extent]] = None
    compare: Optional[object] = None

    def is_result(self) -> bool:
        return self.role in ("out", "inout")

    def keys(self) -> Dict[str, object]:
        """What gates.yaml says of it: defaults are left out."""
        keys: Dict[str, object] = {} if self.role == "in" else {"role": self.role}
        keys.update(type=self.type, shape=list(self.shape))
        if self.fill is not None:
            keys["fill"] = self.fill
        if self.strides is not None:
            keys["strides"] = list(self.strides)
        if self.compare is not None:
            keys["compare"] = self.compare
        return keys
