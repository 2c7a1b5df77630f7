"""The folders of `characterize` import one way: from those before them only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gpuprof.characterize

ROOT = Path(gpuprof.characterize.__file__).parent
ORDER = ("probes", "gates", "maths", "judge", "sheet", "record", "on_gpu", "measure", "results")
_IMPORT = re.compile(r"gpuprof\.characterize\.(\w+)")


def test_every_folder_has_its_place_in_the_order() -> None:
    assert {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(ORDER)
    assert [name for name in re.findall(r"`(\w+)`", gpuprof.characterize.__doc__ or "") if name in ORDER] == list(ORDER)


@pytest.mark.parametrize("folder", ORDER)
def test_a_folder_imports_from_those_before_it(folder: str) -> None:
    allowed = set(ORDER[: ORDER.index(folder) + 1])
    for path in (ROOT / folder).glob("*.py"):
        assert set(_IMPORT.findall(path.read_text(encoding="utf-8"))) <= allowed, path.name
