"""Lets NVRTC, nvdisasm and g++ answer from what earlier runs of the tests kept, where everything is as it was then."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import pytest

from benchmarks.diagnosis import host_run
from gpuprof.code.tools import disassemble, nvrtc
from gpuprof.code.tools.disassemble import Disassembler
from gpuprof.code.tools.nvrtc import CompileOutcome, Nvrtc
from tests import kept

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(.*)$", re.MULTILINE)
_NAMED = re.compile(r'["<]([^">]+)[">]')
_ALSO_INCLUDES = re.compile(r"__has_include|#[ \t]*include_next|\?\?=|%:")
_FOLDER = "--include-path="
_ORIGIN = re.compile(r'^# \d+ "(/[^"]+)"', re.MULTILINE)
_CHECKOUT = Path(__file__).resolve().parents[1]
_MOST_KNOWN = disassemble._MOST_KNOWN
_SAYS_PATHS = ("--generate-line-info", "--device-debug")
"""Options with which a cubin names the files that it is from."""


@contextmanager
def keeping() -> Iterator[None]:
    """Keep what the tools answer, and answer with it, until the end of the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Nvrtc, "compile", _compiling(Nvrtc.compile))
        patch.setattr(disassemble, "_run", _disassembling(disassemble._run))
        patch.setattr(disassemble, "_MOST_KNOWN", -1)  # what is asked does not depend on what was asked before
        patch.setattr(host_run, "_make", _making(host_run._make))
        yield


@contextmanager
def asking() -> Iterator[None]:
    """Ask the tools themselves, whatever was kept, until the end of the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Nvrtc, "compile", getattr(Nvrtc.compile, "asked", Nvrtc.compile))
        patch.setattr(disassemble, "_run", getattr(disassemble._run, "asked", disassemble._run))
        patch.setattr(disassemble, "_MOST_KNOWN", _MOST_KNOWN)
        patch.setattr(host_run, "_make", getattr(host_run._make, "asked", host_run._make))
        yield


@lru_cache(maxsize=8)
def compiler_key(compiler: Nvrtc) -> str:
    """Say which compiler it is, and how it is called, by the content of its libraries and of the border to it."""
    files = sorted(compiler.path.parent.glob("*nvrtc*"))
    return kept.key_of(
        str(compiler),
        kept.hash_of(Path(nvrtc.__file__)),
        [(file.name, kept.hash_of(file)) for file in files if file.is_file()],
    )


@lru_cache(maxsize=8)
def tool_key(tool: Disassembler) -> str:
    """Say which disassembler it is, and how it is called, by its content and that of the border to it."""
    return kept.key_of(str(tool), kept.hash_of(tool.path), kept.hash_of(Path(disassemble.__file__)))


@lru_cache(maxsize=1)
def gxx_key() -> str:
    """Say which g++ it is, how it is called, and what the headers are with which kernels run on the host."""
    compiler = host_run._compiler()
    header = (compiler, *host_run._OPTIONS, "-DGPUPROF_HOST", "-x", "c++", str(host_run.HEADER))
    return kept.key_of(_gxx_key(compiler), _preprocessed(header))


def host_program(source: Path, *options: str) -> bytes:
    """Return the program that g++ makes of a source."""
    command = (host_run._compiler(), *options, str(source))

    def make() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "program"
            subprocess.run([*command, "-o", str(result)], check=True)
            return result.read_bytes()

    made = kept.kept("host", kept.key_of(_gxx_key(command[0]), options, _preprocessed(command)), make)
    assert made is not None
    return made


def source_key(source: str, folders: Sequence[Path]) -> str | None:
    """Return the hash of a source and of all that it includes; None where that cannot be told from its text."""
    contents: dict[str, list[bytes | None]] = {}
    waiting = [source]
    while waiting:
        text = waiting.pop()
        if _ALSO_INCLUDES.search(text):
            return None
        for line in _INCLUDE.findall(text):
            named = _NAMED.match(line)
            if named is None:
                return None
            if named[1] not in contents:
                contents[named[1]] = [_content(folder / named[1]) for folder in folders]
                waiting += [content.decode("utf-8", "replace") for content in contents[named[1]] if content is not None]
    return kept.key_of(source, sorted(contents.items()))


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def _compiling(
    ask: Callable[[Nvrtc, str, str, Sequence[str]], CompileOutcome],
) -> Callable[[Nvrtc, str, str, Sequence[str]], CompileOutcome]:
    def compile_or_recall(self: Nvrtc, source: str, name: str, options: Sequence[str]) -> CompileOutcome:
        made: list[CompileOutcome] = []

        def make() -> bytes | None:
            made.append(ask(self, source, name, options))
            return None if _says_a_folder(made[0], options) else _as_bytes(made[0])

        key = _compilation_key(self, source, name, options)
        stored = kept.kept("compiled", key, make) if key is not None else make()
        if made:
            return made[0]
        assert stored is not None
        return _as_outcome(stored)

    compile_or_recall.asked = ask  # type: ignore[attr-defined]
    return compile_or_recall


def _compilation_key(compiler: Nvrtc, source: str, name: str, options: Sequence[str]) -> str | None:
    folders = [Path(option.removeprefix(_FOLDER)) for option in options if option.startswith(_FOLDER)]
    text = source_key(source, [Path(), *folders])
    if text is None:
        return None
    says_paths = any(option.startswith(_SAYS_PATHS) for option in options)
    named = [option for option in options if says_paths or not option.startswith(_FOLDER)]
    return kept.key_of(compiler_key(compiler), text, name, named, str(Path.cwd()) if says_paths else "")


def _says_a_folder(outcome: CompileOutcome, options: Sequence[str]) -> bool:
    """Tell whether the log names a folder, which another run may have elsewhere."""
    return any(option.removeprefix(_FOLDER) in outcome.log for option in options if option.startswith(_FOLDER))


def _as_bytes(outcome: CompileOutcome) -> bytes:
    head = json.dumps([outcome.cubin is not None, outcome.log]).encode()
    return head + b"\n" + (outcome.cubin or b"")


def _as_outcome(stored: bytes) -> CompileOutcome:
    head, _, cubin = stored.partition(b"\n")
    there, log = json.loads(head)
    return CompileOutcome(cubin if there else None, log)


def _disassembling(ask: Callable[[Disassembler, str, bytes], str]) -> Callable[[Disassembler, str, bytes], str]:
    def run_or_recall(tool: Disassembler, target: str, code: bytes) -> str:
        if not tool.path.is_file():
            return ask(tool, target, code)
        key = kept.key_of(tool_key(tool), target, hashlib.sha256(code).hexdigest())
        text = kept.kept("disassembled", key, lambda: ask(tool, target, code).encode())
        assert text is not None
        return text.decode()

    run_or_recall.asked = ask  # type: ignore[attr-defined]
    return run_or_recall


def _making(ask: Callable[[list[str], Path, Path], None]) -> Callable[[list[str], Path, Path], None]:
    def make_or_recall(command: list[str], result: Path, source: Path) -> None:
        key = _making_key(command)
        stored = kept.read("host", key) if key is not None else None
        if stored is not None:
            result.write_bytes(stored)
            return
        ask(command, result, source)
        if key is not None:
            kept.write("host", key, result.read_bytes())

    make_or_recall.asked = ask  # type: ignore[attr-defined]
    return make_or_recall


def _making_key(command: Sequence[str]) -> str | None:
    """Return the hash of g++, its options and what it is given; None for a file that never comes back."""
    compiler, parts = command[0], []
    for argument in command[1:]:
        if not Path(argument).is_file():
            parts.append(argument)
        elif argument.endswith((".ii", ".o")):
            content = Path(argument).read_bytes()
            if argument.endswith(".ii") and _from_a_passing_folder(content.decode("utf-8", "replace")):
                return None
            parts.append(hashlib.sha256(content).hexdigest())
        else:
            parts.append(_preprocessed(tuple(command)))
    return kept.key_of(_gxx_key(compiler), parts)


def _from_a_passing_folder(preprocessed: str) -> bool:
    """Tell whether a file that it is from lies in a folder for this run alone."""
    files = map(Path, set(_ORIGIN.findall(preprocessed)))
    passing = Path(tempfile.gettempdir()).resolve()
    return any(file.is_relative_to(passing) and not file.is_relative_to(_CHECKOUT) for file in files)


@lru_cache(maxsize=4)
def _preprocessed(command: tuple[str, ...]) -> str:
    """Return the hash of a source with all its headers."""
    arguments = [argument for argument in command if argument != "-c"]
    return hashlib.sha256(subprocess.run([*arguments, "-E"], capture_output=True, check=True).stdout).hexdigest()


@lru_cache(maxsize=4)
def _gxx_key(compiler: str) -> str:
    """Say which g++ it is, by the content of its parts, and how it is called."""
    parts = [Path(compiler).resolve(), *(Path(_part(compiler, name)) for name in ("cc1plus", "as", "ld"))]
    return kept.key_of([kept.hash_of(part) for part in parts if part.is_file()], kept.hash_of(Path(host_run.__file__)))


def _part(compiler: str, name: str) -> str:
    told = subprocess.run([compiler, f"-print-prog-name={name}"], capture_output=True, text=True, check=True)
    return shutil.which(told.stdout.strip()) or name
