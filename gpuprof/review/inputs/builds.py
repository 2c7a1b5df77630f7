"""How a build compiles its CUDA sources: the flags for device code in a compile_commands.json.

Nothing of the build is run, and only options are taken that are known to concern device code. Sources:
https://clang.llvm.org/docs/JSONCompilationDatabase.html; nvcc's documentation, "Command Option Description".
"""

from __future__ import annotations

import os
import re
import shlex
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

import msgspec

from gpuprof.errors import InputError, UsageError, hinted
from gpuprof.review.inputs.file_bytes import read_bytes
from gpuprof.review.inputs.request import Build

_MOST_DATABASE, _MOST_RESPONSE, _MOST_RESPONSES = 256 * 2**20, 2**18, 16
_NAMES_LISTED = 5
_HINT = "have the build write it anew, such as by cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
_FLAGS = {
    "ffast-math": "-use_fast_math", "fgpu-rdc": "-rdc=true", "dc": "-rdc=true", "device-c": "-rdc=true",
    "G": "-G", "device-debug": "-G",
    **{name: f"--{name}" for name in (
        "use_fast_math", "expt-relaxed-constexpr", "expt-extended-lambda", "extended-lambda", "restrict",
        "extra-device-vectorization",
    )},
}  # fmt: skip
"""Options without a value, by their name without dashes, and how nvcc calls them."""
_MACROS = {"D": "-D", "define-macro": "-D", "U": "--undefine-macro=", "undefine-macro": "--undefine-macro="}
_FILES = {
    **dict.fromkeys(("I", "include-path"), "--include-path="),
    **dict.fromkeys(("isystem", "system-include"), "-isystem="),
    **dict.fromkeys(("include", "pre-include"), "-include="),
}
"""Options whose value is a folder or a file, from the folder of the command."""
_NUMBERS = frozenset(("maxrregcount", "ftz", "prec-div", "prec-sqrt", "fmad", "rdc", "relocatable-device-code"))
_ARCHITECTURES = frozenset(("arch", "gpu-architecture", "cuda-gpu-arch", "offload-arch"))
_CODES = frozenset(("code", "gpu-code", "gencode", "generate-code"))
"""Options that name the machine code to write; they take precedence over `_ARCHITECTURES`."""
_ASSEMBLER_OPTIONS = frozenset(("Xptxas", "ptxas-options", "Xcuda-ptxas"))
_VALUED = _MACROS.keys() | _FILES.keys() | _NUMBERS | _ARCHITECTURES | _CODES | _ASSEMBLER_OPTIONS | {"std"}
_RESPONSES = ("optf", "options-file")
_FOR_OTHERS = re.compile(r"-X\w+|--(?:compiler|linker|archive|nvlink|fatbinary|cudafe)-options|-M[FTQ]|-o|-ccbin")
"""Options whose value may look like one for device code, and is not."""
_ASSEMBLER = re.compile(
    r"-O[0-4]|-{1,2}(?:opt-level|dlcm|dscm|def-load-cache|def-store-cache|fmad|register-usage-level)[= ]\w{1,10}"
)
_ATTACHED = re.compile(r"-(isystem|[DUI])=?(.+)", re.DOTALL)
_IS_CUDA = re.compile(r"\.cu$|\s--?x[= ]?cuda?(?:\s|$)")
_MACHINE_CODE, _OTHER_CODE = re.compile(r"\bsm_\d{2,3}[af]?\b"), re.compile(r"(?:compute|lto)(_\d{2,3}[af]?)\b")


class _Entry(msgspec.Struct):
    """A command of the database."""

    file: str
    directory: str = ""
    command: str = ""
    arguments: list[str] = []


def builds_of(database: str, pattern: str | None) -> Mapping[str, tuple[Build, ...]]:
    """Return how the CUDA sources of a compile_commands.json are compiled, by their names; `pattern` chooses.

    A source that is compiled in several ways has several. Raises InputError if the database is damaged.
    """
    builds: dict[str, tuple[Build, ...]] = {}
    others = []
    content = read_bytes(Path(database), database, _MOST_DATABASE)
    here = f"{Path.cwd()}{os.sep}"
    try:
        entries = msgspec.json.decode(content, type=list[_Entry])
        for entry in entries:
            folder = Path(database).absolute().parent / entry.directory
            path = os.path.normpath(folder / entry.file)
            name = path.removeprefix(here)
            if not _IS_CUDA.search(f" {entry.command} {' '.join(entry.arguments)} {path}"):
                continue
            if pattern is not None and not any(fnmatch(text, pattern) for text in (name, Path(name).name)):
                others.append(name)
                continue
            build = _build(entry.arguments or shlex.split(entry.command), folder)
            if build not in builds.get(name, ()):
                builds[name] = (*builds.get(name, ()), build)
    except (msgspec.MsgspecError, ValueError, IndexError, RecursionError) as error:
        raise InputError(f"{database} is no database of compile commands: {error!s:.200}", _HINT) from error
    if others and not builds:
        listed = ", ".join(f"{name:.100}" for name in others[:_NAMES_LISTED])
        raise UsageError(f"--file {pattern!r:.80} matches no CUDA source of {database}", f"there are {listed}")
    if not builds:
        raise InputError(f"{database} has no CUDA source", "name the database of the build that compiles the .cu files")
    return builds


def _build(arguments: Sequence[str], folder: Path) -> Build:
    flags: list[str] = []
    architectures: list[str] = []
    codes: list[str] = []
    standard = None
    words = _words(arguments, folder)
    for word in words:
        name, value = _named(word)
        if name in _FLAGS:
            flags.append(_FLAGS[name])
        elif name in _VALUED:
            value = next(words, "") if value is None else value
            if name == "std":
                standard = value.replace("gnu++", "c++")
            elif name in _ARCHITECTURES:
                architectures += _targets(value)
            elif name in _CODES:
                codes += _targets(value.rpartition("code=")[2])
            else:
                flags += _flags(name, value, folder)
        elif _FOR_OTHERS.fullmatch(word):
            next(words, "")
    return Build(tuple(dict.fromkeys(codes or architectures)), standard, tuple(flags))


def _targets(code: str) -> list[str]:
    return _MACHINE_CODE.findall(code) or [f"sm{number}" for number in _OTHER_CODE.findall(code)]


def _flags(name: str, value: str, folder: Path) -> list[str]:
    """Return an option with a value as nvcc takes it, paths absolute; nothing for a value that it cannot have."""
    if name in _MACROS:
        return [_MACROS[name] + value]
    if name in _FILES:
        return [_FILES[name] + os.path.normpath(folder / value)]
    if name in _ASSEMBLER_OPTIONS:
        return [f"-Xptxas={text}" for text in value.split(",") if _ASSEMBLER.fullmatch(text)]
    return [f"-{name}={value}"] if value.isalnum() else []


def _words(arguments: Sequence[str], folder: Path) -> Iterator[str]:
    """Yield the words of a command and of its response files. Raises ValueError if these are too many."""
    words = deque(arguments)
    files = 0
    while words:
        word = words.popleft()
        name, value = (_RESPONSES[0], word[1:]) if word.startswith("@") else _named(word)
        if name not in _RESPONSES:
            yield word
            continue
        for file in reversed((value or words.popleft()).split(",")):
            files += 1
            if files > _MOST_RESPONSES:
                raise ValueError(f"a command has more than {_MOST_RESPONSES} response files")
            with hinted("it is a response file of a command in the database: build first, then review"):
                text = read_bytes(folder / file, f"{file:.200}", _MOST_RESPONSE).decode("utf-8", "replace")
            words.extendleft(reversed(shlex.split(text)))


def _named(word: str) -> tuple[str, str | None]:
    """Return the name of an option, without dashes, and its value if that is in the same word."""
    attached = _ATTACHED.fullmatch(word)
    if attached is not None:
        return attached[1], attached[2]
    name, equals, value = word.partition("=")
    return name.lstrip("-") if word.startswith("-") else "", value if equals else None
