"""What the time of kernels can be told by."""

from __future__ import annotations

from typing import Literal, get_args

By = Literal["operator", "module", "range", "kernel"]
GROUPINGS: tuple[By, ...] = get_args(By)
