"""A table test checks every row, names those that are wrong, and keeps rows apart."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.table import each_row


def failure_of(test: object) -> list[str]:
    """The message of a table test that fails, by lines."""
    assert callable(test)
    with pytest.raises(AssertionError) as caught:
        test()
    return str(caught.value).splitlines()


def test_every_wrong_row_is_listed_with_its_error() -> None:
    @each_row("value", [2, 0, pytest.param(1, id="one")])
    def halves(value: int) -> None:
        assert 2 // value == 1

    first, *rows = failure_of(halves)
    assert first.startswith("2 of 3 rows")
    assert [row.partition(" ")[0] for row in rows if row.startswith("[")] == ["[1:", "[one]"]
    assert "ZeroDivisionError" in rows[0]


def test_stacked_tables_check_every_combination() -> None:
    seen = []

    @each_row("first", [1, 2])
    @each_row("second, third", [(3, 4), (5, 6)])
    def note(first: int, second: int, third: int) -> None:
        seen.append((first, second, third))

    note()
    assert seen == [(1, 3, 4), (1, 5, 6), (2, 3, 4), (2, 5, 6)]


def test_a_row_that_skips_hides_no_other() -> None:
    @each_row("value", [1, 2, 3])
    def some(value: int) -> None:
        if value < 3:
            pytest.skip("not here")
        assert value == 4

    assert failure_of(some)[0].startswith("1 of 3 rows")

    @each_row("value", [1])
    def none(value: int) -> None:
        pytest.skip("not here")

    with pytest.raises(pytest.skip.Exception):
        none()


def test_a_table_without_rows_fails() -> None:
    @each_row("value", [])
    def nothing(value: int) -> None:
        raise NotImplementedError

    assert "no rows" in failure_of(nothing)[0]


@each_row("value", ["first", "second"])
def test_rows_have_a_folder_and_patches_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    assert list(tmp_path.iterdir()) == []
    assert "GPUPROF_A_ROW" not in os.environ
    (tmp_path / value).touch()
    monkeypatch.setenv("GPUPROF_A_ROW", value)
