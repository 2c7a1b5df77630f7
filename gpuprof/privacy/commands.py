"""Reduce a recorded command line to an allow-list: the program and the known options of gpuprof and ncu."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from gpuprof.model.ncu_line import arguments_of, is_ncu, option_at
from gpuprof.privacy.texts import MASK, NOTHING_KNOWN, KnownPaths, clean_text, last_part, without_home

_NAMES = frozenset(["chips", "metrics", "rule", "section", "set"])
"""Options whose values are names of ncu's own metrics, sections, sets, rules and chips."""
_NAMES_OF_NCU = re.compile(r"[A-Za-z0-9_.,:*+|^$()\[\]?-]{1,20000}")
_FILTERS = frozenset(["kernel-id", "kernel-name", "kernel-regex", "nvtx-exclude", "nvtx-include", "range-filter"])
"""Options whose values name kernels and ranges, which sessions also contain."""
_FILES = frozenset(["export", "import", "log-file"])
_WORDS = frozenset({
    "all", "application", "application-only", "app-range", "attach", "auto", "base", "boost", "buffer", "cuda",
    "default", "demangled", "details", "dynamic", "file", "function", "global", "graph", "grid", "header", "kernel",
    "launch", "launch-and-attach", "line", "mangled", "max", "memory", "name", "no", "node", "none", "off", "on",
    "per-gpu", "per-kernel", "per-launch-config", "per-nvtx", "ptx", "range", "raw", "relaxed", "reset", "sass",
    "session", "source", "stable", "strict", "values", "yes",
})  # fmt: skip
"""Fixed values of ncu's options."""
_NUMBERS = re.compile(r"[0-9][0-9,]{0,40}")
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]{0,9}(?:\.exe)?")
_PYTHON_SWITCHES = re.compile(r"-[bBdEiIOPqsSuvx]{1,13}")
_MODULE = re.compile(r"\w+(?:\.\w+){0,20}")
_ASSIGNED = re.compile(r"[^\s=/\\]+=")
_OURS = re.compile(r"GPUPROF_SURVEY_BY=[a-z]{1,20}")
"""The variable by which gpuprof starts a survey in the program."""
_MARKS = re.compile("GPUPROF_MARK=")
"""The variable that names the file of what is to be marked in the program."""
_LONGEST_NAME = 120
_LONGEST = 100_000


def reduced_command(command: str, known: KnownPaths = NOTHING_KNOWN) -> str:
    """Return a command line with its program and the options of gpuprof and ncu that are known to be harmless.

    `…` replaces arguments and folders. Environment assignments are left out. Everything after an unknown option is
    dropped.
    """
    # Without a folder in between, the rest of a word can be private: "a/home/x\\@h" leaves "a@h".
    return _reduced_once(_reduced_once(command, known), known)


def _reduced_once(command: str, known: KnownPaths) -> str:
    arguments = arguments_of(without_home(command[:_LONGEST]))
    kept = list(_reduced(arguments, known))
    if kept == arguments and len(command) <= _LONGEST:
        return command
    is_quoted = shlex.join(arguments) == command.strip()
    return shlex.join(kept) if is_quoted else " ".join(kept)


def reduced_program(arguments: Sequence[str]) -> str:
    """Return the reduced command, quoted for a shell."""
    return shlex.join(_reduced(arguments, NOTHING_KNOWN))


def _reduced(arguments: Sequence[str], known: KnownPaths) -> Iterator[str]:
    # gpuprof starts ncu by env where it has parts of the program marked.
    start = next((place for place, word in enumerate(arguments[:3]) if word != "env" and not _MARKS.match(word)), 0)
    if arguments and is_ncu(arguments[start]):
        yield from ("env",) if start else ()
        yield last_part(arguments[start])
        yield from _after_ncu(arguments[start:], known)
    elif list(arguments[:2]) == ["gpuprof", "run"]:
        yield from arguments[:2]
        yield from _after_gpuprof(arguments[2:], known)
    else:
        yield from _program(arguments, known)


def _after_ncu(arguments: Sequence[str], known: KnownPaths) -> Iterator[str]:
    """Yield ncu's known options as written, and the program."""
    place = 1
    while place < len(arguments) and arguments[place].startswith("-"):
        option = option_at(arguments, place)
        if option is None:
            yield MASK
            return
        name, value, number = option
        shown = _shown_value(name, value, known) if value is not None else None
        if shown == value:
            yield from arguments[place : place + number]
        elif number == 2:
            yield arguments[place]
            yield shown or MASK
        else:
            written = arguments[place]
            yield f"{written[: len(written) - len(value or '')]}{shown}"
        place += number
    yield from _program(arguments[place:], known)


def _shown_value(name: str, value: str, known: KnownPaths) -> str:
    """Return an option's value, or `…` unless it is known to be harmless."""
    if name in _FILTERS:
        return clean_text(value, known)
    if name in _FILES:
        return _shown_path(value, known) if "/" not in value and "\\" not in value else MASK
    if name in _NAMES:
        return clean_text(value, known) if _NAMES_OF_NCU.fullmatch(value) else MASK
    return value if value in _WORDS or _NUMBERS.fullmatch(value) else MASK


def _after_gpuprof(arguments: Sequence[str], known: KnownPaths) -> Iterator[str]:
    """Yield the options that gpuprof writes into commands, and the program after `--`."""
    place = 0
    while place + 1 < len(arguments) and arguments[place] in ("--kernel", "--survey"):
        option, value = arguments[place : place + 2]
        yield option
        yield clean_text(value, known) if option == "--kernel" else _shown_path(value, known)
        place += 2
    if place < len(arguments) and arguments[place] == "--":
        yield "--"
        yield from _program(arguments[place + 1 :], known)
    elif place < len(arguments):
        yield MASK


def _program(arguments: Sequence[str], known: KnownPaths) -> Iterator[str]:
    """Yield the program and `…` for its arguments; for `env` and Python, the program or script that they start."""
    place = 0
    while place < len(arguments):
        word = arguments[place]
        if _OURS.fullmatch(word):
            yield word
        elif last_part(word) == "env" and not _ASSIGNED.match(word):
            yield "env"
            if arguments[place + 1 : place + 2] and arguments[place + 1].startswith("-"):
                yield MASK
                return
        elif not _ASSIGNED.match(word):
            break
        place += 1
    if place == len(arguments):
        return
    first, rest = arguments[place], arguments[place + 1 :]
    name = last_part(first)
    if _PYTHON.fullmatch(name):
        yield name
        yield from _after_python(rest, known)
    else:
        yield _shown_path(first, known)
        if rest:
            yield MASK


def _after_python(arguments: Sequence[str], known: KnownPaths) -> Iterator[str]:
    """Yield Python's switches and its script or module, and `…` for everything else."""
    place = 0
    while place < len(arguments) and _PYTHON_SWITCHES.fullmatch(arguments[place]):
        yield arguments[place]
        place += 1
    if place == len(arguments):
        return
    word, rest = arguments[place], arguments[place + 1 :]
    if word == "-m" and rest and _MODULE.fullmatch(rest[0]):
        yield word
        yield clean_text(rest[0], known)
        rest = rest[1:]
    elif word.startswith("-"):
        yield MASK
        return
    else:
        yield _shown_path(word, known)
    if rest:
        yield MASK


def _shown_path(path: str, known: KnownPaths) -> str:
    """Return the name of a program or file, with `…/` for its folders so that the result names no other file."""
    name = last_part(path)
    is_name = name.isprintable() and 0 < len(name) <= _LONGEST_NAME and not set(name) & set("\"'`$;&|<>=@~:")
    if not is_name or name.startswith("-") or clean_text(name, known) != name:
        return MASK
    return name if name == path else f"{MASK}/{name}"
