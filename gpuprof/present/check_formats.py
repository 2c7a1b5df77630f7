"""What `gpuprof check` can write as text: a row for each format, with its writer and the endings of its files."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from gpuprof.review.contract import Review


class CheckFormat(Struct, frozen=True):
    """A format: `place` is its writer as `module:name`, which takes a review and how many items and gives lines.

    `endings` tell it from the name of a file. `for_files`: nobody reads it in a terminal, so it is not printed, too,
    where a file has it.
    """

    name: str
    place: str
    endings: tuple[str, ...]
    for_files: bool = False

    def lines(self, review: Review, top: int | None = None) -> Iterable[str]:
        """Return the lines, without line ends; `top` is how many kernels or findings are listed, 0 for all."""
        write: Callable[[Review, int | None], Iterable[str]] = pkgutil.resolve_name(self.place)
        return write(review, top)


_ROWS = (
    CheckFormat("json", "gpuprof.present.check_json:lines", endings=(".json",)),
    CheckFormat("md", "gpuprof.present.check_markdown:lines", endings=(".md", ".markdown")),
    CheckFormat("html", "gpuprof.present.check_page.build:page_lines", endings=(".html", ".htm"), for_files=True),
)
FORMATS = {row.name: row for row in _ROWS}


def format_of(file: str) -> CheckFormat | None:
    """Return the format that the name of a file ends with."""
    return next((row for row in _ROWS if file.lower().endswith(row.endings)), None)
