"""The table of formats: how each product of gpuprof can be written, by which function."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

Product = Literal[
    "session",
    "times",
    "explanation",
    "listing",
    "comparison",
    "review",
    "specs",
    "spec",
    "measured",
    "measured-comparison",
    "probes",
    "code-checks",
]
TABLE = "table"
HTML = "html"
_SESSION_REPORT = "gpuprof.views.exports.session:session_report"
_REVIEW_REPORT = "gpuprof.views.exports.review:review_report"
_COMPARISON_REPORT = "gpuprof.views.exports.comparison:comparison_report"


@dataclass(frozen=True, slots=True)
class Format:
    """A format of a product. `writer` is a function as `module:name`, imported when it is called.

    The writer of the "table" prints on a console; the others return lines without line ends. Instead of it, `view`
    returns the document that is printed as the table or as Markdown. Writers of CI formats take
    the problems that `report`, another function, finds in the product. A file has the format with the longest of the
    `endings` that fits. `warns`: the warnings of a session go to stderr beside it. `launches`: every launch of a
    session is written, not groups of equal ones. `printed`: --format offers it. `by_line`: problems need lines of code.
    """

    name: str
    writer: str = ""
    view: str = ""
    report: str = ""
    endings: tuple[str, ...] = ()
    warns: bool = True
    launches: bool = False
    printed: bool = True
    by_line: bool = False

    def write(self, *arguments: Any, **options: Any) -> Any:
        """Call the writer or the view."""
        return pkgutil.resolve_name(self.writer or self.view)(*arguments, **options)

    def lines(self, product: object, options: object = None) -> Iterable[str]:
        """Return the lines of a comparison, a review or the problems of a session, without line ends."""
        arguments = [self._problems(product, options)] if self.report else [product, options]
        lines: Iterable[str] = self.write(*arguments)
        return lines

    def notes(self, product: object, options: object) -> Iterator[str]:
        """Yield how many problems are at no line of the repository, if the format is by line."""
        from gpuprof.views.exports.problems import without_line_texts

        if self.by_line:
            yield from without_line_texts(self._problems(product, options))

    def _problems(self, product: object, options: object) -> Any:
        return pkgutil.resolve_name(self.report)(product, options)


_FORMATS: dict[Product, tuple[Format, ...]] = {
    "session": (
        Format(TABLE, "gpuprof.views.profile:print_session", warns=False),
        Format("json", "gpuprof.store.write:session_lines", launches=True, warns=False),
        Format("csv", "gpuprof.views.exports.csv_files:kernel_lines", launches=True),
        Format("md", "gpuprof.views.profile:summary_lines"),
        Format("sarif", "gpuprof.views.exports.sarif:lines", report=_SESSION_REPORT, by_line=True),
        Format("github", "gpuprof.views.exports.github:lines", report=_SESSION_REPORT),
        Format("gitlab", "gpuprof.views.exports.gitlab:lines", report=_SESSION_REPORT, by_line=True),
    ),
    "times": (
        Format(TABLE, view="gpuprof.views.time_by:times_document"),
        Format("json", "gpuprof.views.exports.json_documents:time_lines"),
        Format("csv", "gpuprof.views.exports.csv_files:time_lines"),
        Format("md", view="gpuprof.views.time_by:times_document"),
    ),
    "explanation": (
        Format(TABLE, view="gpuprof.views.explain:explanation"),
        Format("json", "gpuprof.views.exports.json_documents:explanation_lines", warns=False),
    ),
    "listing": (
        Format(TABLE, view="gpuprof.views.listing:listing_document"),
        Format("json", "gpuprof.views.exports.json_documents:listing_lines"),
        Format("csv", "gpuprof.views.exports.csv_files:listing_lines"),
        Format("md", view="gpuprof.views.listing:listing_document"),
    ),
    "comparison": (
        Format(TABLE, "gpuprof.views.comparison:print_comparison"),
        Format("json", "gpuprof.views.exports.json_documents:comparison_lines", endings=(".json",)),
        Format("md", "gpuprof.views.comparison:comment_lines", endings=(".md", ".markdown")),
        Format("junit", "gpuprof.views.exports.junit:lines", report=_COMPARISON_REPORT, endings=(".xml",)),
        Format(
            "sarif",
            "gpuprof.views.exports.sarif:lines",
            report=_COMPARISON_REPORT,
            endings=(".sarif", ".sarif.json"),
            by_line=True,
        ),
        Format("github", "gpuprof.views.exports.github:lines", report=_COMPARISON_REPORT),
        Format(
            "gitlab",
            "gpuprof.views.exports.gitlab:lines",
            report=_COMPARISON_REPORT,
            endings=("code-quality-report.json",),
            by_line=True,
        ),
        Format(HTML, "gpuprof.views.comparison:page_lines", endings=(".html", ".htm"), printed=False),
    ),
    "review": (
        Format(TABLE, "gpuprof.views.review:print_review"),
        Format("json", "gpuprof.views.exports.json_documents:review_lines", endings=(".json",)),
        Format("md", "gpuprof.views.review:comment_lines", endings=(".md", ".markdown")),
        Format(HTML, "gpuprof.views.review:page_lines", endings=(".html", ".htm")),
        Format("junit", "gpuprof.views.exports.junit:lines", report=_REVIEW_REPORT, endings=(".xml",)),
        Format(
            "sarif",
            "gpuprof.views.exports.sarif:lines",
            report=_REVIEW_REPORT,
            endings=(".sarif", ".sarif.json"),
            by_line=True,
        ),
        Format("github", "gpuprof.views.exports.github:lines", report=_REVIEW_REPORT),
        Format(
            "gitlab",
            "gpuprof.views.exports.gitlab:lines",
            report=_REVIEW_REPORT,
            endings=("code-quality-report.json",),
            by_line=True,
        ),
    ),
    "specs": (
        Format(TABLE, view="gpuprof.views.specs:specs_document"),
        Format("json", "gpuprof.views.exports.hardware_specs:specs_lines"),
    ),
    "spec": (
        Format(TABLE, view="gpuprof.views.specs:spec_document"),
        Format("json", "gpuprof.views.exports.hardware_specs:spec_lines"),
    ),
    "measured": (
        Format(TABLE, "gpuprof.characterize.present.console:print_measured"),
        Format("json", "gpuprof.characterize.present.json_out:measured_lines"),
    ),
    "measured-comparison": (
        Format(TABLE, "gpuprof.characterize.present.compare:print_comparison"),
        Format("json", "gpuprof.characterize.present.json_out:comparison_lines"),
        Format("md", "gpuprof.characterize.present.compare:comparison_markdown"),
    ),
    "probes": (
        Format(TABLE, "gpuprof.characterize.present.gate_text:print_probes"),
        Format("json", "gpuprof.characterize.present.gate_text:probes_json"),
    ),
    "code-checks": (
        Format(TABLE, "gpuprof.characterize.present.gate_text:print_checks"),
        Format("json", "gpuprof.characterize.present.gate_text:checks_json"),
    ),
}


def formats_of(product: Product) -> dict[str, Format]:
    """Return the formats of a product by their names."""
    return {row.name: row for row in _FORMATS[product]}


def printed_formats(product: Product) -> list[str]:
    """Return the names of the formats that --format offers for a product."""
    return [row.name for row in _FORMATS[product] if row.printed]


def format_of_file(product: Product, file: str) -> Format | None:
    """Return the format that the name of a file ends with: "gl-code-quality-report.json" is GitLab's."""
    endings = {ending: row for row in _FORMATS[product] for ending in row.endings}
    fitting = filter(file.lower().endswith, endings)
    return endings.get(max(fitting, key=len, default=""))


def main_endings(product: Product) -> str:
    """Return the first ending of each format that is known by its ending alone."""
    endings = [row.endings[0] for row in _FORMATS[product] if row.endings]
    return ", ".join(sorted(ending for ending in endings if ending[0] == "."))
