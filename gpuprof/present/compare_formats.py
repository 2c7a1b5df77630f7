"""What `gpuprof compare` can write as text: a row for each format, with its writer and the endings of its files."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuprof.comparison.compare import Compared
    from gpuprof.present.compare_options import CompareOptions


@dataclass(frozen=True, slots=True)
class CompareFormat:
    """A format: `place` is its writer as `module:name`, which takes a comparison and options and gives lines.

    `endings` are those of its files, the longest that fits decides; none: it is chosen by its name. `by_line`: it has
    only results at lines of the repository, and `left_out_texts` says what it leaves out.
    """

    name: str
    place: str
    endings: tuple[str, ...] = ()
    by_line: bool = False

    def lines(self, compared: Compared, options: CompareOptions) -> Iterable[str]:
        """Return the lines, without line ends."""
        write: Callable[[Compared, CompareOptions], Iterable[str]] = pkgutil.resolve_name(self.place)
        return write(compared, options)


def comment(compared: Compared, options: CompareOptions) -> Iterable[str]:
    """Return the comment on a pull request."""
    from gpuprof.views.comparison import comment_lines

    return comment_lines(compared, options.top)


_ROWS = (
    CompareFormat("json", "gpuprof.present.compare_json:lines", endings=(".json",)),
    CompareFormat("md", "gpuprof.present.compare_formats:comment", endings=(".md", ".markdown")),
    CompareFormat("junit", "gpuprof.present.compare_junit:lines", endings=(".xml",)),
    CompareFormat(
        "sarif", "gpuprof.present.compare_sarif:lines", endings=(".sarif", ".sarif.json"), by_line=True
    ),
    CompareFormat("github", "gpuprof.present.compare_annotations:github_lines"),
    CompareFormat(
        "gitlab", "gpuprof.present.compare_annotations:gitlab_lines", endings=("code-quality-report.json",),
        by_line=True,
    ),
)  # fmt: skip
FORMATS = {row.name: row for row in _ROWS}


def format_of(file: str) -> CompareFormat | None:
    """Return the format that the name of a file ends with: "gl-code-quality-report.json" is GitLab's."""
    fitting = [(len(end), row) for row in _ROWS for end in row.endings if file.lower().endswith(end)]
    return max(fitting, key=lambda fit: fit[0])[1] if fitting else None
