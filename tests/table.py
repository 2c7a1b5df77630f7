"""Table tests: one test checks many rows, and its failure lists every row that is wrong."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

import pytest
from _pytest.mark import ParameterSet

Test = Callable[..., None]
_ROW_NUMBERS = count()


def each_row(
    names: str | Sequence[str], rows: Iterable[Any], ids: Iterable[object] | Callable[[Any], object] | None = None
) -> Callable[[Test], Test]:
    """Call a test once for each row, as `pytest.mark.parametrize` does with the same arguments, but within one test.

    Each row has a `tmp_path` and a `monkeypatch` of its own; other fixtures are shared by all rows. Tables can be
    stacked. If a row skips, the others are still checked; if all skip, the test does. Use `parametrize` for rows that
    take long, so that several processes can share them.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    named = ids if ids is None or callable(ids) else list(ids)
    rows = list(rows)
    table = [_values(row, len(arguments)) for row in rows]

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        assert set(arguments) <= set(signature.parameters), f"{test.__name__} does not take {arguments}"

        @functools.wraps(test)
        def check_rows(**fixtures: Any) -> None:
            assert table, "the table has no rows"
            failures, skipped = [], []
            for number, values in enumerate(table):
                try:
                    _call(test, fixtures, dict(zip(arguments, values, strict=True)))
                except pytest.skip.Exception as skip:
                    skipped.append(skip)
                except Exception as error:
                    failures.append((_label(rows[number], number, named, values), error))
            if failures:
                listing = "\n".join(f"[{label}] {_described(error)}" for label, error in failures)
                raise AssertionError(f"{len(failures)} of {len(table)} rows are wrong:\n{listing}") from failures[0][1]
            if len(skipped) == len(table):
                raise skipped[0]

        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        check_rows.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return check_rows

    return decorate


def _values(row: Any, width: int) -> tuple[Any, ...]:
    """Return the values of a row."""
    if isinstance(row, ParameterSet):
        assert not row.marks, "a row of a table cannot be marked"
        return tuple(row.values)
    return tuple(row) if width > 1 else (row,)


def _label(
    row: Any, number: int, ids: Sequence[object] | Callable[[Any], object] | None, values: tuple[Any, ...]
) -> str:
    """Return what names a row in the message of a failure."""
    if isinstance(row, ParameterSet) and row.id is not None:
        return str(row.id)
    if ids is not None and not callable(ids):
        return str(ids[number])
    parts = [ids(value) if ids is not None else value for value in values]
    return f"{number}: " + ", ".join(repr(part)[:60] for part in parts)


def _call(test: Test, fixtures: dict[str, Any], values: dict[str, Any]) -> None:
    """Call the test on one row."""
    if "tmp_path" in fixtures:
        folder = fixtures["tmp_path"] / f"row-{next(_ROW_NUMBERS)}"
        folder.mkdir()
        fixtures = {**fixtures, "tmp_path": folder}
    if "monkeypatch" not in fixtures:
        test(**fixtures, **values)
        return
    with pytest.MonkeyPatch.context() as patch:
        test(**{**fixtures, "monkeypatch": patch}, **values)


def _described(error: Exception) -> str:
    """Return where in a test a row failed, and why."""
    frames = traceback.extract_tb(error.__traceback__)
    tests = [frame for frame in frames if frame.filename.endswith(".py") and "/tests/" in frame.filename]
    frame = tests[-1] if tests else frames[-1]
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno}: {type(error).__name__}: {error}"
