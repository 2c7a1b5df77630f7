"""Lets NVIDIA's report reader answer from what earlier runs of the tests kept: the code of a report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from gpuprof.read import native_guard, native_report, ncu_code, ncu_rep
from gpuprof.read.native_report import FewActions
from gpuprof.read.ncu_code import CodeReader
from tests import kept


@contextmanager
def keeping() -> Iterator[None]:
    """Keep what the reader's children find out, and answer with it, until the end of the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ncu_rep, "CodeReader", _RecallingReader)
        yield


@contextmanager
def asking() -> Iterator[None]:
    """Have the reader's children asked themselves, whatever was kept, until the end of the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ncu_rep, "CodeReader", CodeReader)
        yield


@cache
def _reader_key() -> str:
    """Say which reader it is, and how it is called."""
    borders = (native_guard, native_report, ncu_code)
    return kept.key_of(version("ncu-report"), [kept.hash_of(Path(str(border.__file__))) for border in borders])


class _RecallingReader(CodeReader):
    """Asks its child only what was not kept."""

    __slots__ = ("_key",)

    def __init__(self, path: Path, actions: Sequence[Any]) -> None:
        super().__init__(path, actions)
        data = actions.data[:] if isinstance(actions, FewActions) else path.read_bytes()
        self._key = kept.key_of(_reader_key(), hashlib.sha256(data).hexdigest())

    def prepare(self) -> None:
        """Leave the child to the first question of which the answer is not kept."""

    def _ask(self, what: str, number: int, pcs: Sequence[int]) -> Any:
        ask = super()._ask
        key = kept.key_of(self._key, what, number, list(pcs))
        stored = kept.kept("report-code", key, lambda: json.dumps(ask(what, number, pcs)).encode())
        assert stored is not None
        return json.loads(stored)
