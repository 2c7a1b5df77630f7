"""The reference of the measured file: every key, what stands there and what it means, from the declaration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuprof.characterize.sheet.keys import keys_of
from gpuprof.characterize.sheet.measured import HEAD, Measured

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_HEAD = " and ".join(f"`{name}: {value}`" for name, value in HEAD.items())
INTRO = f"""`gpuprof characterize` writes `NAME.measured.yaml`, from which a profile takes its measured ceilings.
[Measuring](../explanation/measuring.md) says what the values mean.

- A file begins with {_HEAD}. What is not known is left out. A key that is not listed here is refused.
- Amounts have a unit, and are written with six digits: `4.51 TB/s`, `60 MiB`, `33.1 cycle`.
- In JSON (`--format json`) the same fields are in base units, `null` where nothing is known. Values and curves are
  lists there, each with its name. The second column says where a key is called otherwise.
"""


def measured_page() -> str:
    """Return the page."""
    return "\n".join(["# The measured file\n", INTRO, *_table(Measured)])


def _table(record: type[DataclassInstance]) -> Iterator[str]:
    """Yield the table of a record, then those of the records in it."""
    yield "| key | in JSON | stands there | meaning |"
    yield "|---|---|---|---|"
    for key in keys_of(record):
        in_json = f"`{key.field}`" if key.field != key.name else ""
        yield f"| `{key.name}` | {in_json} | {key.form.description} | {key.meaning} |"
    yield ""
    for key in keys_of(record):
        if key.form.of is not None:
            yield f"## `{key.name}`\n"
            yield from _table(key.form.of)
