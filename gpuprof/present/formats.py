"""What `gpuprof show` can print: a row for each format, with its writers and what they take."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Takes = Literal["launches", "groups", "terminal"]


class Writer(NamedTuple):
    """A function as `module:name`, imported when it is called for, and whether warnings go to stderr beside it."""

    place: str
    warns: bool = False

    def function(self) -> Callable[..., Any]:
        """Import the function."""
        function: Callable[..., Any] = pkgutil.resolve_name(self.place)
        return function


@dataclass(frozen=True, slots=True)
class Format:
    """A format: how the kernels are written, what `--by` sums up, the code of `--sass`, and the tree of `--explain`
    (None: it cannot be).

    Of "launches", a writer gets a session with the chosen ones and gives lines; of "groups", where equal launches are
    one kernel, the run, the chosen kernels, how many to show and the times by operator to show instead, and gives
    lines; on a "terminal" it prints the same.
    That of times gets the run, its times and how many groups to show, and the console first on a "terminal". That of
    `--sass` gets the session, the kernel, its listing and whether all of it is wanted, that of the tree the session,
    the kernel and its explanation. Of "launches" both give lines, else a document.
    """

    name: str
    takes: Takes
    kernels: Writer
    times: Writer
    sass: Writer
    tree: Writer | None = None


_ROWS = (
    Format(
        "table", "terminal", Writer("gpuprof.present.console:print_session"),
        times=Writer("gpuprof.present.time_by_text:print_times"),
        sass=Writer("gpuprof.views.listing:listing_document", warns=True),
        tree=Writer("gpuprof.views.explain:explanation", warns=True),
    ),
    Format(
        "json", "launches", Writer("gpuprof.store.write:session_lines"),
        times=Writer("gpuprof.present.time_by_out:json_lines"),
        sass=Writer("gpuprof.present.listing_out:json_lines", warns=True),
        tree=Writer("gpuprof.present.tree_json:tree_lines"),
    ),
    Format(
        "csv", "launches", Writer("gpuprof.present.csv_out:csv_lines", warns=True),
        times=Writer("gpuprof.present.time_by_out:csv_lines"),
        sass=Writer("gpuprof.present.listing_out:csv_lines", warns=True),
    ),
    Format(
        "md", "groups", Writer("gpuprof.present.markdown:markdown_lines", warns=True),
        times=Writer("gpuprof.present.markdown:times_lines"),
        sass=Writer("gpuprof.views.listing:listing_document", warns=True),
    ),
)  # fmt: skip
FORMATS = {row.name: row for row in _ROWS}
DEFAULT = "table"
