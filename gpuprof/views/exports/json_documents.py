"""Products as JSON documents, an item of their main lists a line, and the schemas of these documents."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from msgspec import UNSET, Struct, structs

from gpuprof.comparison.contract import COMPARISON_VERSION, Comparison
from gpuprof.review.contract import REVIEW_VERSION, Review
from gpuprof.store.schema import schema_of
from gpuprof.store.write import document_lines
from gpuprof.words.sentences import short_list

if TYPE_CHECKING:
    from gpuprof.annotated.listing import Listing
    from gpuprof.comparison.compare import Compared
    from gpuprof.model.session import KernelProfile, Session
    from gpuprof.model.time_by import TimeBy
    from gpuprof.words.explain_node import ExplanationNode

# Maximum number of missing values that the note names.
_MOST_NAMED = 5
# An escape of half a surrogate pair: a name that is not UTF-8 has them, and strict readers refuse them.
_HALF_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\(u[dD][89a-fA-F][0-9a-fA-F]{2})")


def comparison_lines(compared: Compared, _options: object) -> Iterator[str]:
    """Yield the whole comparison. A number that is not finite is missing, with a note."""
    return _contract_lines(compared.comparison, ("conditions", "total", "kernels", "notes"))


def review_lines(review: Review, _top: object) -> Iterator[str]:
    """Yield the whole review. A number that is not finite is missing, with a note."""
    return _contract_lines(review, ("modules", "kernels", "findings", "unreviewed", "notes"))


def time_lines(session: Session, times: TimeBy, _top: object) -> Iterator[str]:
    """Yield the time by operator, module, range or kernel: all groups, one line each."""
    names = ("by", "time_s", "run_time_s", "launches", "untimed_launches", "steps", "groups")
    fields = {name: getattr(times, name) for name in names}
    return document_lines(_versions(session) | fields, ("groups",))


def listing_lines(session: Session, _kernel: KernelProfile, listing: Listing, _whole: bool) -> Iterator[str]:
    """Yield the machine code of a kernel, a line for each instruction."""
    return document_lines(_versions(session) | structs.asdict(listing), ("functions", "instructions"))


def explanation_lines(session: Session, kernel: KernelProfile, tree: ExplanationNode) -> Iterator[str]:
    """Yield the explanation of a kernel."""
    names = {"kernel": kernel.id, "label": kernel.label, "demangled": kernel.demangled}
    return document_lines(_versions(session) | names | {"tree": tree}, ())


def schema_of_comparison() -> dict[str, Any]:
    """Return the JSON Schema of `compare --format json`."""
    return schema_of(Comparison, f"gpuprof comparison, version {COMPARISON_VERSION}")


def schema_of_review() -> dict[str, Any]:
    """Return the JSON Schema of `check --format json`."""
    return schema_of(Review, f"gpuprof review, version {REVIEW_VERSION}")


def _versions(session: Session) -> dict[str, object]:
    return {"schema_version": session.schema_version, "gpuprof_version": session.gpuprof_version}


def _contract_lines(contract: Comparison | Review, one_line_each: Sequence[str]) -> Iterator[str]:
    try:
        lines = list(document_lines(contract, one_line_each))
    except ValueError:
        # Each number that is not finite becomes null. If a field cannot be null, its record is, or is left out.
        places: list[str] = []
        finite: Struct = _finite(contract, "", places)
        note = f"Not finite, and therefore missing: {short_list(places, _MOST_NAMED)}."
        finite = structs.replace(finite, notes=(*contract.notes, note))
        lines = list(document_lines(finite, one_line_each))
    for line in lines:
        # Half a surrogate pair becomes the visible text `\udcff`, as everywhere else.
        yield _HALF_PAIR.sub(r"\1\\\\\2", line)


def _finite(value: Any, place: str, places: list[str]) -> Any:
    """Return a value without numbers that are not finite, and append their places; UNSET if it needs one of them."""
    if isinstance(value, float) and not math.isfinite(value):
        places.append(place)
        return UNSET
    if isinstance(value, tuple):
        items = [_finite(item, f"{place}[{index}]", places) for index, item in enumerate(value)]
        return tuple(item for item in items if item is not UNSET)
    if not isinstance(value, Struct):
        return value
    changes = {}
    for name, kind in get_type_hints(type(value)).items():
        finite = _finite(getattr(value, name), f"{place}.{name}".lstrip("."), places)
        can_be_null = type(None) in get_args(kind)
        changes[name] = None if finite is UNSET and can_be_null else finite
    return UNSET if UNSET in changes.values() else structs.replace(value, **changes)
