"""Lets NVIDIA's report reader answer from what earlier runs of the tests kept: that it survives a file, its code."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from gpuprof.read import native_guard, ncu_code, ncu_rep
from gpuprof.read.native_guard import NamedBytes, Trial
from gpuprof.read.ncu_code import CodeReader
from tests import kept


@contextmanager
def keeping() -> Iterator[None]:
    """Keep what the reader's children find out, and answer with it, until the end of the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ncu_rep, "NamedBytes", _opened)
        patch.setattr(ncu_rep, "start", _tried)
        patch.setattr(ncu_rep, "CodeReader", _RecallingReader)
        yield


@contextmanager
def asking() -> Iterator[None]:
    """Have the reader's children asked themselves, whatever was kept, until the end of the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ncu_rep, "start", native_guard.start)
        patch.setattr(ncu_rep, "CodeReader", CodeReader)
        yield


_last = threading.local()
"""The key of the file that a thread has last opened: a reading opens it, tries it and then asks for its code."""


def _opened(data: bytes) -> NamedBytes:
    _last.key = kept.key_of(_reader_key(), hashlib.sha256(data).hexdigest())
    return NamedBytes(data)


@cache
def _reader_key() -> str:
    """Say which reader it is, and how it is called."""
    borders = (native_guard, ncu_code, ncu_rep)
    return kept.key_of(version("ncu-report"), [kept.hash_of(Path(str(border.__file__))) for border in borders])


def _tried(action: Callable[[], object]) -> Trial | _KeptTrial:
    """Try a file in a child, unless one has come through."""
    key = _last.key
    return Trial(None) if kept.read("came-through", key) is not None else _KeptTrial(native_guard.start(action), key)


class _KeptTrial:
    """A trial that is kept once it has come through."""

    def __init__(self, trial: Trial, key: str) -> None:
        self._trial, self._key = trial, key

    def outcome(self) -> str | None:
        fate = self._trial.outcome()
        if fate is None:
            kept.write("came-through", self._key, b"")
        return fate


class _RecallingReader(CodeReader):
    """Asks its child only what was not kept."""

    __slots__ = ("_key",)

    def __init__(self, path: Path, actions: Sequence[Any]) -> None:
        super().__init__(path, actions)
        self._key = _last.key

    def prepare(self) -> None:
        """Leave the child to the first question of which the answer is not kept."""

    def _ask(self, what: str, number: int, pcs: Sequence[int]) -> Any:
        ask = super()._ask
        key = kept.key_of(self._key, what, number, list(pcs))
        stored = kept.kept("report-code", key, lambda: json.dumps(ask(what, number, pcs)).encode())
        assert stored is not None
        return json.loads(stored)
