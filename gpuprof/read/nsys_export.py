"""The SQLite file that `nsys export` writes: its tables, whatever its version calls them, and its texts."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from gpuprof.errors import DamagedInput, InputError

EXPORT_AGAIN = "export the report again: nsys export --type sqlite REPORT.nsys-rep"
CALLS = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")
ABOUT_EXPORT = ("META_DATA_EXPORT", "EXPORT_META_DATA")
"""Tables about the export itself, today and before 2022.4."""
_VERSION = re.compile(r"(.+)_V(\d{1,9})")
"""A table whose columns changed can have the version of its layout at its end: CUPTI_ACTIVITY_KIND_KERNEL_V3."""
_STORED_TABLES = """
SELECT name FROM sqlite_master AS tables
WHERE type = 'table' AND rootpage > 0 AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo(tables.name) WHERE hidden <> 0)
"""
"""Only stored tables: views, virtual tables and computed columns can yield far more than is in the file."""
_PAGE_SIZE = slice(16, 18)
"""The bytes of a database that have the size of its pages, of 64 KiB as 1 (sqlite.org/fileformat.html, 1.3.2)."""
_LATEST_NS = 10**18
"""No time of a timeline comes near it: it is 30 years."""


class Export:
    """The tables of an export, by their names without a version; what it does not have is empty."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA trusted_schema = OFF")
        versions = []
        for row in connection.execute(_STORED_TABLES):
            match = _VERSION.fullmatch(row["name"])
            name, version = (match[1], int(match[2])) if match else (row["name"], 1)
            quoted = '"' + row["name"].replace('"', '""') + '"'
            versions.append((version, quoted, name))
        self._tables: dict[str, str] = {}
        for _, table, name in sorted(versions):
            # Of several versions the highest one that has rows.
            if name not in self._tables or connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone():  # noqa: S608
                self._tables[name] = table

    def has(self, *tables: str) -> bool:
        """Return whether the export has any of these tables."""
        return any(table in self._tables for table in tables)

    def rows(self, tables: Collection[str], *columns: str, **renamed: str) -> Iterator[sqlite3.Row]:
        """Yield the rows of tables with these columns, None if a table lacks one.

        `renamed` are columns that the tables call something else.
        """
        own_names = dict(zip(columns, columns, strict=True)) | renamed
        for name in [self._tables[table] for table in tables if table in self._tables]:
            recorded = {row["name"] for row in self._connection.execute(f"PRAGMA table_info({name})")}
            chosen = ", ".join(
                f'"{own}" AS "{column}"' if own in recorded else f'NULL AS "{column}"'
                for column, own in own_names.items()
            )
            yield from self._connection.execute(f"SELECT {chosen} FROM {name}")  # noqa: S608  names of our own

    def spans(self, tables: Collection[str], *columns: str) -> Iterator[tuple[int, int, sqlite3.Row]]:
        """Yield when things began and ended, in nanoseconds, with their rows; not those that cannot be."""
        for row in self.rows(tables, "start", "end", *columns):
            start, end = as_time(row["start"]), as_time(row["end"])
            if start is not None and end is not None and end >= start:
                yield start, end, row

    @cached_property
    def strings(self) -> Mapping[int, str]:
        """Return the table of strings."""
        rows = self.rows(("StringIds",), "id", "value")
        return {row["id"]: row["value"] for row in rows if isinstance(row["value"], str)}

    def string(self, number: object) -> str | None:
        """Return the text of a number in the table of strings; a text is its own."""
        if isinstance(number, str):
            return number
        return self.strings.get(number) if isinstance(number, int) else None

    def named(self, tables: Collection[str], name: str) -> str | None:
        """Return the value of that name in tables of names and values."""
        values = (row["value"] for row in self.rows(tables, "name", "value") if row["name"] == name)
        return next((str(value) for value in values if value not in (None, "")), None)


def refuse_unfinished(path: Path) -> None:
    """Raise DamagedInput for a file that ends in the middle of a page, InputError for one that is still being written.

    SQLite itself finds that pages are missing, but fills up the last one.
    """
    with path.open("rb") as file:
        page = int.from_bytes(file.read(_PAGE_SIZE.stop)[_PAGE_SIZE], "big")
    excess = path.stat().st_size % (2**16 if page == 1 else max(page, 1))
    if excess:
        raise DamagedInput(f"{path} is damaged: its last page is cut off", EXPORT_AGAIN)
    for beside in (path.with_name(f"{path.name}-journal"), path.with_name(f"{path.name}-wal")):
        if beside.exists() and beside.stat().st_size:
            raise InputError(
                f"{path} is still being written: {beside.name} is beside it",
                "wait until nsys export has ended, or export again",
            )


def as_time(value: object) -> int | None:
    """Return a time in nanoseconds, None if it cannot be one."""
    return value if isinstance(value, int) and -_LATEST_NS < value < _LATEST_NS else None


def process_id(number: object) -> int | None:
    """Return the process that a global number of a process or thread names: bits 24 to 47."""
    return number >> 24 & 0xFFFFFF if isinstance(number, int) else None
