"""How ncu chooses what it profiles of a program's launches, as far as recordings of an H100 with ncu 2025.3 show it.

For `standin_ncu.py`, which runs without site-packages: only the standard library. A launch is a dict: `name` (mangled),
`function`, `demangled`, `grid`, `block`, `stream`, `process`, `ranges`, `step` (the number of the step that it is in),
`stopped` (the program has called cudaProfilerStop before it), and `bytes`, what the report has of it.

Recorded: `--kernel-id` numbers the launches of a name, by `per-launch-config` those of each grid and block, over all
streams. Of names that are not mangled the first two came right, ten times of ten; of larger numbers none came right:
another launch of such a name came, or none. Which one comes follows no known rule; here it is the next launch of
another one. Whether the base of names changes that is not known: here it does not.

From NVIDIA's documentation, not recorded: `--launch-skip-before-match` counts all launches, `--launch-skip` and
`--launch-count` those that match; `--nvtx-include NAME/` takes what is in a pushed range of that name; what is launched
after cudaProfilerStop is not profiled, unless `--disable-profiler-start-stop` has it ignored. Each process is taken to
count for itself.

What the hook in a PyTorch program would do is done here: where GPUPROF_MARK names a file, the launches of its step that
are in one of its units are marked, for `--nvtx-include gpuprof-chosen/` or `--profile-from-start off`.
"""

from __future__ import annotations

import base64
import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence
    from typing import Any

    Launch = Mapping[str, Any]

MARK = "gpuprof-chosen"
SURE = 2
"""So many invocations of a name that is not mangled come right."""


def report_of(argv: Sequence[str], head: str, launches: Sequence[Launch], environ: Mapping[str, str]) -> bytes:
    """Return the report that ncu writes, empty if nothing is profiled; `head` is its beginning, in base64."""
    parts = [launches[place]["bytes"] for place in selected(argv, launches, environ)]
    return b"".join(map(base64.b64decode, [head, *parts])) if parts else b""


def selected(argv: Sequence[str], launches: Sequence[Launch], environ: Mapping[str, str]) -> list[int]:
    """Return the places of the launches that are profiled, in their order. `argv` are the options, and the program."""
    options = _options(argv)
    marked = _marked(launches, environ.get("GPUPROF_MARK"))
    places = _after(range(len(launches)), launches, int(options.get("--launch-skip-before-match", ["0"])[-1]))
    if options.get("--profile-from-start", ["on"])[-1] in ("off", "no", "0", "false"):
        places = [place for place in places if place in marked["profiler"]]
    elif "--disable-profiler-start-stop" not in options:
        places = [place for place in places if not launches[place]["stopped"]]
    if "--nvtx-include" in options:
        names = {_pushed(expression) for expression in options["--nvtx-include"]}
        around = {place: {*launches[place]["ranges"], *([MARK] if place in marked["nvtx"] else [])} for place in places}
        places = [place for place in places if names & around[place]]
    base = options.get("--kernel-name-base", ["function"])[-1]
    if "--kernel-name" in options:
        chosen = _finds(options["--kernel-name"][-1])
        places = [place for place in places if chosen(launches[place][base])]
    if "--kernel-id" in options:
        by_config = options.get("--filter-mode", ["global"])[-1] == "per-launch-config"
        came = _by_id(options["--kernel-id"][-1], launches, base, by_config=by_config)
        places = [place for place in places if place in came]
    places = _after(places, launches, int(options.get("--launch-skip", ["0"])[-1]))
    if "--launch-count" in options:
        later = _after(places, launches, int(options["--launch-count"][-1]))
        places = [place for place in places if place not in later]
    return places


def _options(argv: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each option that stands before the program."""
    options: dict[str, list[str]] = {}
    end = argv.index("--force-overwrite") if "--force-overwrite" in argv else len(argv)
    for word, following in zip(argv[:end], [*argv[1:end], ""]):  # noqa: B905 - of equal length
        if word.startswith("--"):
            options.setdefault(word, []).append(following)
    return options


def _after(places: Iterable[int], launches: Sequence[Launch], count: int) -> list[int]:
    """Return the places but for the first `count` of each process."""
    seen: dict[Hashable, int] = {}
    kept = []
    for place in places:
        process = launches[place]["process"]
        seen[process] = seen.get(process, 0) + 1
        if seen[process] > count:
            kept.append(place)
    return kept


def _pushed(expression: str) -> str:
    """Return the name in `NAME/`, the only expression for ranges that is known here."""
    name, slash, more = expression.partition("/")
    assert slash and not more and not set(name) & set("[]*+@,"), f"no selection is made by --nvtx-include {expression}"
    return name


def _finds(expression: str) -> Any:
    """Return what tells whether a name fits `regex:…`, which may be found anywhere in it, or a whole name."""
    if expression.startswith("regex:"):
        return re.compile(expression[len("regex:") :]).search
    return lambda name: expression in ("", name)


def _by_id(identifier: str, launches: Sequence[Launch], base: str, *, by_config: bool) -> set[int]:
    """Return the places that come for `context:stream:name:number`; context and stream are empty."""
    context, stream, *name, number = identifier.split(":")
    assert not context and not stream, f"no selection is made by --kernel-id {identifier}"
    fits, chosen = _finds(":".join(name)), re.compile(number if re.search(r"\D", number) else f"^{number}$")
    counts: dict[Hashable, int] = {}
    came = set()
    for place, launch in enumerate(launches):
        config = (*launch["grid"], *launch["block"]) if by_config else ()
        key = (launch["process"], launch["name"], config)
        counts[key] = counts.get(key, 0) + 1
        if fits(launch[base]) and chosen.search(str(counts[key])):
            came.add(place if _is_mangled(launch) or counts[key] <= SURE else _another(launches, place))
    return came - {-1}


def _another(launches: Sequence[Launch], place: int) -> int:
    """Return the place of the next launch of another name that is not mangled, -1 if there is none."""
    later = range(place + 1, len(launches))
    name = launches[place]["name"]
    return next((at for at in later if launches[at]["name"] != name and not _is_mangled(launches[at])), -1)


def _is_mangled(launch: Launch) -> bool:
    return bool(launch["name"].startswith("_Z"))


def _marked(launches: Sequence[Launch], path: str | None) -> dict[str, set[int]]:
    """Return the places that the hook marks, by what it marks them with."""
    marked: dict[str, set[int]] = {"nvtx": set(), "profiler": set()}
    if path is None:
        return marked
    with open(path) as file:  # noqa: PTH123
        told = json.load(file)
    for place, launch in enumerate(launches):
        if launch["step"] == told["step"] and set(told["units"]) & _units(launch["ranges"]):
            marked[told["with"]].add(place)
    return marked


def _units(ranges: Iterable[str]) -> set[str]:
    return {"optimizer step" if name.startswith("Optimizer.step#") else name for name in ranges}
