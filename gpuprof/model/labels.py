"""Short, unique and harmless labels for kernels: the words of their family, a hint, and what tells them apart."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from gpuprof.model.kernel_names import KernelName, harmless, parse_name, unnumbered
from gpuprof.model.label_families import SAYS_NOTHING, TARGET_WIDTH, worded
from gpuprof.model.name_tree import WORD_START, is_number
from gpuprof.model.torch_ranges import launched_by
from gpuprof.model.type_words import DTYPES

__all__ = ["MAX_WIDTH", "TARGET_WIDTH", "label_kernels", "launch_labels", "short_name"]

MAX_WIDTH = 60
MAX_LAUNCH_WIDTH = 96
"""The width of a label that says which module and operator launched the kernel."""

LabelKey = TypeVar("LabelKey", bound=Hashable)

_ELLIPSIS = "…"
_MAX_DETAIL_WIDTH = 24
_MAX_DETAILS = 3
_MAX_DETAILS_WIDTH = 32
_TILE = re.compile(r"(?:MT)?\d{1,4}x\d{1,4}(?:x\d{1,4})?")
_ARCHITECTURE = re.compile(r"_?(?<![A-Za-z0-9])(forwardCompat|[Ss][Mm]_?\d{2,3}[af]?)(?![A-Za-z0-9])")
"""Which GPUs a library built a kernel for: on another one, that explains its speed."""


class LaunchLabel(NamedTuple):
    """The label of a launch, and that of its function; empty if they are the same.

    Kernels that fuse the same operators under different numbers of a compiler are one function.
    """

    label: str
    function: str


def label_kernels(demangled: Sequence[str]) -> tuple[str, ...]:
    """Return one label for each name, in order: equal names share a label, different names never do."""
    labels = _function_labels(demangled, [()] * len(demangled))
    return tuple(labels[text] for text in demangled)


def launch_labels(demangled: Sequence[str], ranges: Sequence[tuple[str, ...]]) -> tuple[LaunchLabel, ...]:
    """Return labels for launches of these names within these NVTX ranges, outermost first.

    If the ranges name an operator of torch, the label is that with its module. Without one it is that of the function.
    A range that all launches of a function share is shown if the name alone says nothing, such as `Kernel`.
    """
    kernels = _function_labels(demangled, ranges)
    names = _functions(kernels)
    functions = _function_labels([names[text] for text in demangled], ranges)
    launches = [(text, harmless(launched_by(own))) for text, own in zip(demangled, ranges, strict=True)]
    launched = _launched(list(dict.fromkeys(launches)), kernels)
    labels = []
    for launch in launches:
        label, function = launched[launch], functions[names[launch[0]]]
        labels.append(LaunchLabel(label, function if function != label else ""))
    return tuple(labels)


def _functions(demangled: Iterable[str]) -> dict[str, str]:
    """Return the name of each kernel, without its number if others have the same name with another number."""
    unnumbered_names = {text: unnumbered(text) for text in demangled}
    numbers = Counter(head for head, _ in set(unnumbered_names.values()))
    return {text: head if numbers[head] > 1 else text for text, (head, _) in unnumbered_names.items()}


def _function_labels(demangled: Sequence[str], hints: Sequence[tuple[str, ...]]) -> dict[str, str]:
    """Return a label for each different name, whatever operator of torch launched it."""
    shared_hints = _shared_hints(demangled, [() if launched_by(ranges) else ranges for ranges in hints])
    drafts = {text: _draft(parse_name(text), shared) for text, shared in shared_hints.items()}
    return _numbered(_told_apart(drafts), dict.fromkeys(drafts, MAX_WIDTH))


def _launched(launches: Sequence[tuple[str, str]], labels: dict[str, str]) -> dict[tuple[str, str], str]:
    """Return for each name and what launched it a label: that, with the kernel's own behind it where several share it.

    What no operator launched keeps its own label.
    """
    names: dict[str, list[str]] = defaultdict(list)
    for text, launched in launches:
        names[launched].append(text)
    full = {
        (text, launched): _with_kernel(launched, labels[text] if len(names[launched]) > 1 else "")
        if launched
        else labels[text]
        for text, launched in launches
    }
    return _numbered(full, {launch: MAX_LAUNCH_WIDTH if launch[1] else MAX_WIDTH for launch in launches})


def _with_kernel(launched: str, label: str) -> str:
    if not label:
        return launched
    kernel = f" · {_fitted(label, MAX_LAUNCH_WIDTH // 3)}"
    return _fitted(launched, MAX_LAUNCH_WIDTH - len(kernel)) + kernel


def short_name(demangled: str) -> str:
    """Return the function's own name, without return type, namespace, template arguments and parameters."""
    return parse_name(demangled).base


def _shared_hints(demangled: Sequence[str], hints: Sequence[tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return for each different name, in order, the hints that all its launches share."""
    shared: dict[str, tuple[str, ...]] = {}
    for text, own in zip(demangled, hints, strict=True):
        shared[text] = tuple(hint for hint in shared.get(text, own) if hint in own)
    return shared


def _draft(name: KernelName, hints: tuple[str, ...]) -> str:
    """Return a name's label before uniqueness, with a hint where it says nothing."""
    return _fitted(_with_hint(worded(name), name, hints), MAX_WIDTH)


def _with_hint(draft: str, name: KernelName, hints: tuple[str, ...]) -> str:
    """Add the innermost hint to a label that is only the name of a carrier."""
    if draft not in SAYS_NOTHING or name.args or not hints:
        return draft
    return f"{draft} @{_fitted(harmless(hints[-1]), _MAX_DETAIL_WIDTH)}"


def _told_apart(drafts: dict[str, str]) -> dict[str, str]:
    """Return the labels with, where drafts collide, the short full name or the first details that differ."""
    labels: dict[str, str] = {}
    for draft, texts in _grouped(drafts).items():
        labels.update({texts[0]: draft} if len(texts) == 1 else _group_told_apart(draft, texts))
    return {text: labels[text] for text in drafts}


def _grouped(labels: dict[str, str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for text, label in labels.items():
        groups[label].append(text)
    return groups


def _group_told_apart(draft: str, texts: list[str]) -> dict[str, str]:
    """Return labels for the names of one draft: the names themselves where they are short."""
    names = {text: parse_name(text) for text in texts}
    full = [name.text.removeprefix("void ") for name in names.values()]
    width = MAX_WIDTH if all(name.plain for name in names.values()) else TARGET_WIDTH
    if len(set(full)) == len(full) and max(len(text) for text in full) <= width:
        return dict(zip(texts, full, strict=True))
    return _with_details(draft, names)


def _with_details(draft: str, names: dict[str, KernelName]) -> dict[str, str]:
    """Return the draft with, for each name, the first differing detail, then more where still needed."""
    details: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    for _ in range(_MAX_DETAILS):
        groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for text, shown in details.items():
            groups[shown].append(text)
        for members in groups.values():
            differences = _differences([names[text] for text in members])
            if len(set(differences)) > 1:
                added = zip(members, differences, strict=True)
                details.update((text, (*details[text], detail)) for text, detail in added if detail)
    return {text: _detailed(draft, shown) for text, shown in details.items()}


def _differences(names: list[KernelName]) -> list[str]:
    """Return for each name the detail at the first token in which the names differ."""
    position = _first_difference([name.tokens for name in names])
    details = [_detail(name.tokens, position) for name in names]
    if min(len(detail) for detail in details) <= _MAX_DETAIL_WIDTH:
        return details
    pieces = [tuple(detail.split("_")) for detail in details]
    at = _first_difference(pieces)
    return [piece[at] if at < len(piece) else "" for piece in pieces]


def _first_difference(sequences: Sequence[tuple[str, ...]]) -> int:
    """Return the length of the common beginning: that of the first and the last in sorted order."""
    first, last = min(sequences), max(sequences)
    pairs = zip(first, last, strict=False)
    return next((position for position, (a, b) in enumerate(pairs) if a != b), min(len(first), len(last)))


def _detail(tokens: tuple[str, ...], position: int) -> str:
    """Return a token as a detail: a type by its short name, a number with the small template around it.

    What tells nothing by itself, a bracket, gives way to the next word.
    """
    position = next((i for i in range(position, len(tokens)) if WORD_START.match(tokens[i])), len(tokens))
    if position == len(tokens):
        return ""
    word = tokens[position]
    if not is_number(word):
        return DTYPES.get(word, word)
    start = position
    while start > 0 and (tokens[start - 1] == "," or is_number(tokens[start - 1])):
        start -= 1
    end = next((i for i in range(position, len(tokens)) if tokens[i] in ">)("), position)
    if start < 3 or tokens[start - 1] != "<" or end - start > 6:
        return word
    if tokens[start - 2].endswith("Shape"):
        return "x".join(tokens[start:end:2])
    return f"{tokens[start - 2]}<{''.join(tokens[start:end]).replace(',', ', ')}>"


def _detailed(draft: str, details: tuple[str, ...]) -> str:
    """Return the draft with details, in its argument list where that was cut, within the hard limit."""
    if not details:
        return draft
    shown = _fitted(", ".join(_fitted(detail, _MAX_DETAIL_WIDTH) for detail in details), _MAX_DETAILS_WIDTH)
    ending = f", {_ELLIPSIS}>"
    joined = f", {_ELLIPSIS}, {shown}>" if draft.endswith(ending) else f" <{shown}>"
    return _fitted(draft.removesuffix(ending), MAX_WIDTH - len(joined)) + joined


def _numbered(labels: dict[LabelKey, str], widths: dict[LabelKey, int]) -> dict[LabelKey, str]:
    """Return the labels within their hard limits; of equal ones the second becomes `…#2`, the third `…#3`."""
    fitted = {key: _fitted(label, widths[key]) for key, label in labels.items()}
    taken = set(fitted.values())
    counts: dict[str, int] = {}
    for key, label in fitted.items():
        number = counts.get(label, 0) + 1
        if number > 1:
            while (candidate := _with_number(label, number, widths[key])) in taken:
                number += 1
            taken.add(candidate)
            fitted[key] = candidate
        counts[label] = number
    return fitted


def _with_number(label: str, number: int, width: int) -> str:
    suffix = f"#{number}"
    return _fitted(label, width - len(suffix)) + suffix


def _fitted(label: str, width: int) -> str:
    """Return the label, its middle replaced by an ellipsis where it is too wide; tile and architecture survive."""
    cut = _cut(label, width)
    words_lost = [word for word in dict.fromkeys(_ARCHITECTURE.findall(label)) if word not in cut]
    ending = "".join(f" {word}" for word in words_lost)
    if not ending or width < 2 * len(ending):
        return cut
    return _cut(_ARCHITECTURE.sub("", label), width - len(ending)) + ending


def _cut(label: str, width: int) -> str:
    """Return the label, its middle replaced by an ellipsis where it is too wide; a tile size survives."""
    if len(label) <= width:
        return label
    tail_width = width // 3
    tail = _tail(label, len(label) - tail_width, len(label))
    tile = _TILE.search(label)
    if tile and tile.start() <= width - tail_width <= tile.end() + 1:
        return _head(label, 0, width - 1) + _ELLIPSIS
    if tile and width - tail_width < tile.start() < len(label) - tail_width:
        tail = _head(label, tile.start(), tile.start() + tail_width)
    return _head(label, 0, width - len(tail) - 1) + _ELLIPSIS + tail


def _head(label: str, start: int, end: int) -> str:
    """Return the label from `start` to `end`, or to the end of the last whole word before it, if one is near."""
    ends = (index for index in range(end, (start + end) // 2, -1) if not _breaks_word(label, index))
    return label[start : next(ends, end)].rstrip(f" ,_{_ELLIPSIS}")


def _tail(label: str, start: int, end: int) -> str:
    """Return the label from `start`, or from the first whole word behind it, if one is near."""
    starts = (index for index in range(start, (start + end) // 2) if not _breaks_word(label, index))
    return label[next(starts, start) : end].lstrip(f" ,_{_ELLIPSIS}")


def _breaks_word(label: str, index: int) -> bool:
    """Tell whether a cut before this character lies within a word."""
    return label[index - 1 : index].isalnum() and label[index : index + 1].isalnum()
