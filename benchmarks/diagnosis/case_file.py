"""Reads `NAME.yaml` of `microkernels/bottlenecks/` into a Case. Anything unknown is an error with file and line."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.diagnosis.case import (
    FAMILIES,
    FIXED,
    LAUNCH_GATE,
    NONE,
    OPTIONS,
    PLACES,
    SCALARS,
    SLOW,
    TARGETS,
    TRAITS,
    TYPES,
    BufferSpec,
    Case,
    Expected,
    Extent,
    Fill,
    LaunchSpec,
    Sum,
    Waves,
)
from benchmarks.diagnosis.twin_file import parse_gate
from gpuprof.characterize.probes.gate_file import parse_targets
from gpuprof.characterize.probes.probe import Argument
from gpuprof.diagnose.registry import RULES
from gpuprof.errors import UsageError
from gpuprof.hardware.yaml_fields import Fields, amount, number, whole
from gpuprof.hardware.yaml_tree import BrokenSpec, YamlNode, load_tree
from gpuprof.model.occupancy import LIMITERS
from gpuprof.resources import data_dir

KEYS = {
    "schema", "name", "title", "family", "planted_rule", "limiter", "line", "not_first", "roof", "fix", "gain",
    "besides", "architectures", "sizes", "small", "arguments", "buffers", "launch", "times", "options", "gate",
}  # fmt: skip
_ENTRY = re.compile(r'^extern "C" __global__', re.MULTILINE)
_NAMED = re.compile(
    r'^extern "C" __global__\s+void\b(?:\s*__\w+__\s*\((?:[^()]|\([^()]*\))*\))*\s*(\w+)\s*\(', re.MULTILINE
)
_RANGES = {"u32": (0, 2**32 - 1), "u64": (0, 2**64 - 1), "i32": (-(2**31), 2**31 - 1)}
_WORD_FILLS = ("zeros", "random", "permutation", "ascending")
_ONE_FILLS = ("below", "zipf", "cycle", "value")
_MOST_AXES = 3


def case_folder() -> Path:
    """Return the folder of the cases."""
    return data_dir("microkernels") / "bottlenecks"


def load_cases(names: Iterable[str] = ()) -> tuple[Case, ...]:
    """Read all cases, or those that are named. Raises BrokenSpec, and UsageError for a name that no case has."""
    files = {path.stem: path for path in sorted(case_folder().glob("*.yaml"))}
    names = tuple(names)
    for name in names:
        if name not in files:
            raise UsageError(f"there is no case {name}", f"they are {', '.join(files)}")
    return tuple(read_case(files[name]) for name in names or files)


def read_case(path: Path) -> Case:
    """Read one file. Raises BrokenSpec."""
    top = Fields(load_tree(path), "a case", KEYS)
    source = path.with_suffix(".cu")
    _check_head(top, path, source)
    planted = top.choice("planted_rule", (NONE, *(rule.id for rule in RULES)))
    entries = (FIXED,) if planted == NONE else (SLOW, FIXED)
    targets, unsupported = _architectures(top)
    sizes = {name: _size(node, name) for name, node in top.mapping("sizes").items()}
    case = Case(
        source=source,
        title=top.text("title"),
        family=top.choice("family", FAMILIES),
        planted_rule=planted,
        limiter=top.choice("limiter", LIMITERS) if "limiter" in top else None,
        lines=_lines(top, source, entries),
        not_first=_rules(top, "not_first"),
        roof=top.choice("roof", tuple(rule.id for rule in RULES)) if "roof" in top else None,
        fix=top.text("fix") if "fix" in top else None,
        gain=_gain(top.node("gain")),
        besides=_besides(top),
        targets=targets,
        unsupported=unsupported,
        sizes=sizes,
        small={name: whole(node, name) for name, node in top.mapping("small").items()},
        arguments=tuple(_argument(node, sizes) for node in top.items("arguments")),
        buffers={name: _buffer(node, sizes, entries) for name, node in top.mapping("buffers").items()},
        launches=_launches(top, sizes, entries),
        options=_options(top, entries),
        gate=_gate(top, targets, entries),
        place=top.tree.place,
    )
    _check(case, top)
    return case


def _check_head(top: Fields, path: Path, source: Path) -> None:
    top.choice("schema", ("1",))
    top.choice("name", (path.stem,))
    if not source.is_file():
        raise BrokenSpec(top.place("name"), f"there is no {source.name} beside this file")


def _architectures(top: Fields) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return those of TARGETS that the case is for, and why not the others."""
    entry = Fields(top.required("architectures"), "architectures", {"lowest", "targets", "unsupported"})
    if "targets" in entry:
        named = tuple(target for node in entry.items("targets") for target in parse_targets(node))
    else:
        lowest = parse_targets(entry.required("lowest"))[0]
        named = TARGETS[TARGETS.index(lowest) :] if lowest in TARGETS else TARGETS
    why = {
        target: node.text("unsupported")
        for name, node in entry.mapping("unsupported").items()
        for target in parse_targets(YamlNode(name, node.place))
    }
    targets = tuple(target for target in TARGETS if target in named and target not in why)
    if not targets:
        raise BrokenSpec(top.place("architectures"), f"none of {', '.join(TARGETS)}")
    return targets, why


def _lines(top: Fields, source: Path, entries: tuple[str, ...]) -> tuple[int, ...]:
    """Return the lines of the texts that name the cause: one of `slow`, or of what stands before it in the file."""
    head, slow = _slow(source, top, entries)
    lines = []
    for node in top.entries("line"):
        wanted, before = node.text("line"), head.count("\n")
        numbers = _lines_with(wanted, slow, before) or _lines_with(wanted, head, 0)
        if len(numbers) != 1:
            raise BrokenSpec(node.place, f"{wanted!r} stands on {len(numbers)} lines of `slow`, not on one")
        lines += numbers
    return tuple(lines)


def _slow(source: Path, top: Fields, entries: tuple[str, ...]) -> tuple[str, str]:
    """Return what stands before the first kernel, and the first kernel, which must be `slow` where there are two."""
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenSpec(top.place("name"), f"{source.name} cannot be read: {error}") from error
    starts = [match.start() for match in _ENTRY.finditer(text)]
    names = [match[1] for match in _NAMED.finditer(text)]
    if names != list(entries):
        wanted = " and ".join(entries)
        raise BrokenSpec(top.place("name"), f"{source.name} must have the kernels {wanted}, in this order, not {names}")
    return text[: starts[0]], text[starts[0] : starts[1] if len(starts) > 1 else len(text)]


def _lines_with(wanted: str, text: str, before: int) -> list[int]:
    """Return the numbers of the lines with a text, of a part of a file that so many line ends come before."""
    return [number for number, line in enumerate(text.splitlines(), before + 1) if wanted in line]


def _rules(top: Fields, key: str) -> tuple[str, ...]:
    return top.choices(key, tuple(rule.id for rule in RULES)) if key in top else ()


def _gain(node: YamlNode | None) -> Expected | None:
    if node is None:
        return None
    entry = Fields(node, "gain", {"low", "high", "why"})
    low, high = (amount(entry.required(key), key, "%") / 100 for key in ("low", "high"))
    if not 0 <= low < high <= 1:
        raise BrokenSpec(node.place, "a gain is a range within 0 to 100 %")
    return Expected(low, high, entry.text("why"))


def _besides(top: Fields) -> dict[str, str]:
    node = top.node("besides")
    if node is None:
        return {}
    entry = Fields(node, "besides", set(TRAITS))
    return {trait: entry.text(trait) for trait in entry}


def _size(node: YamlNode, name: str) -> int | Waves:
    if not isinstance(node.value, Mapping):
        return whole(node, name)
    entry = Fields(node, name, {"waves", "by"})
    return Waves(number(entry.required("waves"), "waves"), whole(entry.required("by"), "by"))


def _argument(node: YamlNode, sizes: Mapping[str, object]) -> Argument:
    kind, _, name = node.text("an argument").partition(" ")
    name = name.strip()
    if kind == "buffer" and name:
        return Argument(kind, name)
    if kind in SCALARS and (name in sizes or name == LAUNCH_GATE or _is_number(name, kind)):
        return Argument(kind, name)
    raise BrokenSpec(
        node.place, f"an argument is `buffer NAME`, or {', '.join(SCALARS)} with a size or a number; not {kind} {name}"
    )


def _is_number(text: str, kind: str) -> bool:
    """Tell whether a text is a number that fits the type."""
    if kind.startswith("f"):
        try:
            return math.isfinite(float(text))
        except ValueError:
            return False
    low, high = _RANGES[kind]
    return re.fullmatch(r"-?\d{1,20}", text) is not None and low <= int(text) <= high


def _buffer(node: YamlNode, sizes: Mapping[str, object], entries: tuple[str, ...]) -> BufferSpec:
    entry = Fields(node, "a buffer", {"type", "count", "fill", "result", "place"})
    place = entry.node("place")
    if place is not None and isinstance(place.value, Mapping):
        each = Fields(place, "place", set(entries))
        places = {name: each.choice(name, PLACES) for name in entries}
    else:
        places = dict.fromkeys(entries, entry.choice("place", PLACES) if place is not None else PLACES[0])
    return BufferSpec(
        type=entry.choice("type", TYPES),
        count=_sum(entry.entries("count"), sizes, entry),
        fill=_fill(entry.required("fill"), sizes),
        result=number(entry.required("result"), "result") if "result" in entry else None,
        places=places,
    )


def _sum(nodes: tuple[YamlNode, ...], sizes: Mapping[str, object], entry: Fields) -> Sum:
    factors: list[int | str] = []
    plus = 0
    for node in nodes:
        if isinstance(node.value, Mapping):
            plus += whole(Fields(node, "count", {"plus"}).required("plus"), "plus")
        else:
            factors.append(_named(node, sizes))
    if not factors:
        raise BrokenSpec(entry.place("count"), "count needs sizes or numbers")
    return Sum(tuple(factors), plus)


def _named(node: YamlNode, sizes: Mapping[str, object]) -> int | str:
    text = node.text("a count")
    if text in sizes:
        return text
    return whole(node, "a count")


def _fill(node: YamlNode, sizes: Mapping[str, object]) -> Fill:
    if not isinstance(node.value, Mapping):
        text = node.text("fill")
        if text not in _WORD_FILLS:
            raise BrokenSpec(node.place, f"fill {text!r} is not one of {', '.join(_WORD_FILLS)}, nor a mapping")
        return Fill(text)
    entry = Fields(node, "fill", {*_ONE_FILLS, "offsets"})
    kinds = tuple(entry)
    if len(kinds) != 1:
        raise BrokenSpec(node.place, "fill is one thing")
    if kinds[0] != "offsets":
        value = _number_or_size(entry.required(kinds[0]), sizes)
        if kinds[0] != "value" and isinstance(value, float) and (value < 1 or value != round(value)):
            raise BrokenSpec(node.place, f"{kinds[0]} needs a whole number above zero")
        return Fill(kinds[0], (value,))
    rows = Fields(entry.required("offsets"), "offsets", {"short", "long", "every"})
    return Fill("offsets", tuple(_named(rows.required(key), sizes) for key in ("short", "long", "every")))


def _number_or_size(node: YamlNode, sizes: Mapping[str, object]) -> float | str:
    text = node.text("a number or a size")
    return text if text in sizes else number(node, "a number or a size")


def _launches(top: Fields, sizes: Mapping[str, object], entries: tuple[str, ...]) -> dict[str, LaunchSpec]:
    node = top.required("launch")
    each = set(node.mapping("launch"))
    apart = bool(each & {SLOW, FIXED})
    if apart and each != set(entries):
        raise BrokenSpec(node.place, f"launch must give {' and '.join(entries)}")
    times = Fields(top.node("times") or YamlNode({}, node.place), "times", set(entries))
    return {
        entry: _launch(
            node.mapping("launch")[entry] if apart else node,
            sizes,
            whole(times.required(entry), "times") if entry in times else 1,
        )
        for entry in entries
    }


def _launch(node: YamlNode, sizes: Mapping[str, object], times: int) -> LaunchSpec:
    entry = Fields(node, "launch", {"grid", "block", "shared"})
    grid = tuple(_extent(item, sizes) for item in entry.entries("grid"))
    block = tuple(whole(item, "block") for item in entry.entries("block"))
    for key, numbers in (("grid", grid), ("block", block)):
        if not 1 <= len(numbers) <= _MOST_AXES:
            raise BrokenSpec(entry.place(key), f"{key} has one to three numbers")
    shared = whole(entry.required("shared"), "shared", 0) if "shared" in entry else 0
    return LaunchSpec(grid=grid, block=block, shared_bytes=shared, times=times)


def _extent(node: YamlNode, sizes: Mapping[str, object]) -> Extent:
    if not isinstance(node.value, Mapping):
        named = _named(node, sizes)
        return Extent(cover=named) if isinstance(named, str) else Extent(number=named)
    entry = Fields(node, "grid", {"cover", "by", "sms", "plus"})
    if ("cover" in entry) == ("sms" in entry):
        raise BrokenSpec(node.place, "a grid covers a size, or has blocks for each SM")
    plus = whole(entry.required("plus"), "plus") if "plus" in entry else 0
    if "sms" in entry:
        return Extent(sms=whole(entry.required("sms"), "sms"), plus=plus)
    cover = entry.choice("cover", tuple(sizes))
    return Extent(cover=cover, by=whole(entry.required("by"), "by"), plus=plus)


def _options(top: Fields, entries: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    entry = Fields(top.node("options") or YamlNode({}, top.tree.place), "options", set(entries))
    return {name: entry.choices(name, OPTIONS) if name in entry else () for name in entries}


def _gate(top: Fields, targets: tuple[str, ...], entries: tuple[str, ...]):  # type: ignore[no-untyped-def]
    node = top.required("gate")
    if isinstance(node.value, str):
        top.choice("gate", (LAUNCH_GATE,))
        return None
    return parse_gate(node, targets, entries)


def _check(case: Case, top: Fields) -> None:
    """Refuse what contradicts itself."""
    well_tuned = case.planted_rule == NONE
    missing = "roof" if well_tuned and case.roof is None else "fix" if not well_tuned and not case.fix else None
    if missing is not None:
        raise BrokenSpec(top.tree.place, f"{missing} is missing")
    if (case.limiter is not None) != (case.planted_rule == "low-occupancy"):
        raise BrokenSpec(top.tree.place, "limiter belongs to low-occupancy, and to it alone")
    if well_tuned and case.besides:
        raise BrokenSpec(top.place("besides"), "a well-tuned case has no second kernel to differ from")
    if case.planted_rule in case.not_first:
        raise BrokenSpec(top.place("not_first"), "the planted rule must come first")
    if set(case.small) != set(case.sizes):
        raise BrokenSpec(top.place("small"), f"small must give {', '.join(case.sizes)}")
    named = {argument.name for argument in case.arguments if argument.kind == "buffer"}
    if named != set(case.buffers):
        raise BrokenSpec(top.place("buffers"), f"arguments and buffers differ: {named ^ set(case.buffers)}")
    if not any(buffer.result is not None for buffer in case.buffers.values()):
        raise BrokenSpec(top.place("buffers"), "no buffer is a result")
    if case.gate is None and not _explained_by_launch(case):
        raise BrokenSpec(top.place("gate"), "gate: launch, but both kernels have the same launch and places")


def _explained_by_launch(case: Case) -> bool:
    if case.planted_rule == NONE:
        return False
    return case.launches[SLOW] != case.launches[FIXED] or any(
        buffer.places[SLOW] != buffer.places[FIXED] for buffer in case.buffers.values()
    )
