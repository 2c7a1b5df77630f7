"""`gpuprof.toml`, or `[tool.gpuprof]` of a `pyproject.toml`: where it is looked for, and what may be in it.

Nothing in it names a program to run or a place to write to: it may come with a folder that someone else has filled.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gpuprof.cli import patience
from gpuprof.collect.counter_sets import SET_NAMES
from gpuprof.errors import InputError, UsageError

OWN, SHARED = "gpuprof.toml", "pyproject.toml"
VARIABLE = "GPUPROF_CONFIG"
_MOST_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Config:
    """A file, the name by which it is told, and the values by key."""

    file: Path
    name: str
    values: Mapping[str, Any]


class Key(NamedTuple):
    """A key: the parameter of the commands that it sets, what it takes, and whether a value is that."""

    parameter: str
    takes: str
    fits: Callable[[Any], bool]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_percent(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 100


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def _is_list(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


KEYS: Mapping[str, Key] = {
    "exclude": Key("exclude", 'a list of texts, such as ["fill", "memset"]', _is_list),
    "top": Key("top", "a whole number from 0 on", lambda value: _is_whole(value) and 0 <= value < 2**31),
    "spec": Key("spec", "a text: a spec's name or file", _is_text),
    "set": Key("counters", f"one of {', '.join(SET_NAMES)}", lambda value: value in SET_NAMES),
    "coverage": Key("coverage", "a number above 0 and up to 100", _is_percent),
    "compare.fail-on": Key("fail_on", 'a list of limits, such as ["time:3%", "registers"]', _is_list),
    "compare.unclear": Key("unclear", "pass or fail", lambda value: value in ("pass", "fail")),
    "compare.accept": Key("accept", "a text: a file of accepted regressions", _is_text),
}  # fmt: skip
"""By name; each is the option of that name, those with a dot in the table of a command."""
COMPARE, KERNELS = "compare", "kernels"
"""The table of the command, and in it the tables of limits by kernel."""
_LIMITS = f"{COMPARE}.fail-on"


def find_config(environ: Mapping[str, str]) -> Config | None:
    """Return what GPUPROF_CONFIG names, else the nearest configuration. Raises InputError for one that is wrong.

    It is looked for in the working folder and above it, up to the root of a repository or the home folder; where
    neither is above it, in the working folder alone.
    """
    named = environ.get(VARIABLE)
    if named is not None:
        return _named(named) if named else None
    try:
        here = Path.cwd()
    except OSError:  # the working folder is gone
        return None
    for folder in _folders(here, environ):
        for file in (folder / OWN, folder / SHARED):
            config = _read(file, os.path.relpath(file, here)) if _is_meant(file) else None
            if config is not None:
                return config
    return None


def _is_meant(file: Path) -> bool:
    """Tell whether there is a file of that name, or a link to a file that is not there."""
    return os.path.isfile(file) or (os.path.islink(file) and not os.path.exists(file))  # noqa: PTH110, PTH113, PTH114


def _named(name: str) -> Config:
    is_file = os.path.isfile(name)  # noqa: PTH113
    config = _read(Path(name), name) if is_file else None
    if config is None:
        what = "has no [tool.gpuprof]" if is_file else "is not a file" if os.path.lexists(name) else "does not exist"
        raise InputError(f"{VARIABLE}: {name} {what}", f"name a {OWN}, or set it to nothing to do without")
    return config


def _folders(here: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    every = [here, *here.parents]
    home = os.path.realpath(environ["HOME"]) if environ.get("HOME") else None
    ends = (number for number, folder in enumerate(every) if str(folder) == home or os.path.lexists(folder / ".git"))
    yield from every[: next(ends, 0) + 1]


def _read(file: Path, name: str) -> Config | None:
    """Read a file; None for a pyproject.toml that says nothing of gpuprof."""
    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{name} cannot be read: {(error.strerror or str(error)).lower()}", _WITHOUT) from error
    is_shared = file.name == SHARED
    if is_shared and b"gpuprof" not in data:
        return None
    if len(data) > _MOST_BYTES:
        raise InputError(f"{name} has more than {_MOST_BYTES // 2**20} MiB", _WITHOUT)
    table: Any = _parsed(data, name)
    if is_shared:
        tool = table.get("tool")
        if not isinstance(tool, dict) or tool.get("gpuprof") is None:
            return None
        table = tool["gpuprof"]
    if not isinstance(table, dict):
        raise InputError(f"{name}: tool.gpuprof is not a table", f"write [tool.gpuprof], or use {OWN}")
    return Config(file, name, {key: _checked(key, value, file, name) for key, value in _flat(table, name)})


_WITHOUT = "fix it, or add --no-config"


def _parsed(data: bytes, name: str) -> Any:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    slow = InputError(f"{name} takes longer than {patience.LIMIT_S:g} s to read", _WITHOUT)
    try:
        with patience.within(patience.LIMIT_S, slow):
            return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{name}:{line}: not UTF-8", _WITHOUT) from error
    except RecursionError as error:
        raise InputError(f"{name}: nested too deeply", _WITHOUT) from error
    except ValueError as error:
        what = str(error)[:200]
        raise InputError(f"{name}: {what[:1].lower()}{what[1:]}", _WITHOUT) from error


def _flat(table: Mapping[str, Any], name: str) -> Iterator[tuple[str, Any]]:
    """Yield keys and values, those of [compare] by their whole names; limits by kernel are among the limits."""
    for key, value in table.items():
        if key != COMPARE or "." in key:
            yield key if "." not in key else f"{key!r:.80}", value
            continue
        if not isinstance(value, dict):
            raise InputError(f"{name}: {COMPARE} cannot be {value!r:.80}", f"write [{COMPARE}], and keys below it")
        for own, kept in value.items():
            if own not in ("fail-on", KERNELS):
                yield f"{COMPARE}.{own}", kept
            elif own == "fail-on" or "fail-on" not in value:
                yield _LIMITS, _limits_in(value, name)


def _limits_in(table: Mapping[str, Any], name: str) -> Any:
    """Return the limits of all kernels, and behind them those by kernel; what is no list as it is."""
    limits = table.get("fail-on", [])
    return [*limits, *_of_kernels(table.get(KERNELS, {}), name)] if _is_list(limits) else limits


def _of_kernels(tables: Any, name: str) -> Iterator[str]:
    """Yield the limits of [compare.kernels."PATTERN"], as the option has them."""
    how = f'write [{COMPARE}.{KERNELS}."gemm"] and below it fail-on = ["time:5%"]'
    if not isinstance(tables, dict):
        raise InputError(f"{name}: {COMPARE}.{KERNELS} cannot be {tables!r:.80}", how)
    for pattern, table in tables.items():
        limits: Any = table.get("fail-on") if isinstance(table, dict) and len(table) == 1 else None
        if not _is_list(limits):
            raise InputError(f"{name}: {COMPARE}.{KERNELS}.{pattern!r:.80} cannot be {table!r:.80}", how)
        for limit in limits:
            if "=" in limit:
                raise InputError(f"{name}: {limit!r:.80} of {pattern!r:.80} names a kernel itself", how)
            yield f"{pattern}={limit}"


def _checked(key: str, value: Any, file: Path, name: str) -> Any:
    """Return a value as its option takes it. Raises InputError for an unknown key, and a value that it cannot have."""
    known = KEYS.get(key)
    if known is None:
        hint = f"keys stand alone in {OWN}, without [tool.gpuprof]" if key == "tool" else f"there are {', '.join(KEYS)}"
        raise InputError(f"{name}: unknown key {key!r:.80}", hint)
    if not known.fits(value):
        raise InputError(f"{name}: {key} cannot be {value!r:.80}", f"{key} takes {known.takes}")
    if key in _READ:
        _check_texts(key, value, name)
    if key == "compare.accept":
        return os.path.relpath(file.parent / value) if not Path(value).is_absolute() else value
    return _beside(file, value, name) if key == "spec" else value


def _patterns(texts: list[str]) -> object:
    from gpuprof.model.kernel_match import name_patterns

    return name_patterns(texts, "exclude")


def _limits(texts: list[str]) -> object:
    from gpuprof.comparison.gate.limits import limits_of

    return limits_of(texts, "fail-on")


_READ: Mapping[str, Callable[[list[str]], object]] = {"exclude": _patterns, _LIMITS: _limits}
"""What reads the texts of a key, and raises UsageError for one that is wrong."""


def _check_texts(key: str, texts: list[str], name: str) -> None:
    slow = InputError(f"{name}: {key} takes longer than {patience.LIMIT_S:g} s to read", _WITHOUT)
    try:
        with patience.within(patience.LIMIT_S, slow):
            _READ[key](texts)
    except UsageError as error:
        raise InputError(f"{name}: {error.message}", error.hint) from error


def _beside(file: Path, spec: str, name: str) -> str:
    """Return a spec's name, or the path of a file that is named from the configuration's folder."""
    if not spec.endswith((".yaml", ".yml")) and os.sep not in spec:
        return spec
    place = file.parent / spec
    if not os.path.isfile(place):  # noqa: PTH113
        raise InputError(f"{name}: spec {spec!r:.80} does not exist", "name it from the folder that this file is in")
    return os.path.relpath(place) if not Path(spec).is_absolute() else spec
