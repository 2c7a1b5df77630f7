"""Where packaged data lies: the copy inside the wheel, else the folders of the checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_dir(name: str) -> Path:
    """Return the folder `name` ("specs", "microkernels" or "recordings") that belongs to this copy of gpuprof.

    A wheel carries it as `gpuprof/_data/name`; an editable install and a bare checkout have it beside the package.
    """
    packaged = _PACKAGE / "_data" / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / name
