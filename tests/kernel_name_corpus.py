"""Real kernels under every name that a tool may give them, and the same for kernels that are made up."""

from __future__ import annotations

import ctypes
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import strategies as st

_CAST = re.compile(r"\((?:(?:un)?signed )?(?:bool|char|short|int|long|long long)\)(?=-?\d)")
_KINETO_LONGEST = 1024
"""PyTorch's traces leave longer symbols mangled (Kineto, libkineto/src/Demangle.cpp)."""


class Names(NamedTuple):
    """A kernel's symbol, its name as ncu writes it in full, and as C++ libraries do, which PyTorch's traces have."""

    symbol: str
    nvidia: str
    library: str

    @property
    def renamed(self) -> str:
        """Return what ncu makes of it by --rename-kernels, as far as it is known."""
        return renamed(self.nvidia)


def renamed(nvidia: str) -> str:
    """Leave out casts and namespaces, as in the names of ncu 2025 that were seen; `const::[` went with them."""
    return re.sub(r"(?:\b[A-Za-z_]\w*::\[?)+", "", _CAST.sub("", nvidia))


@lru_cache
def of_libraries() -> tuple[Names, ...]:
    """Return the kernels of tests/data/kernel_names.txt."""
    text = (Path(__file__).parent / "data" / "kernel_names.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    symbols = lines[0::2]
    return tuple(
        Names(symbol, nvidia, library)
        for symbol, nvidia, library in zip(symbols, lines[1::2], map(library_name, symbols), strict=True)
    )


def library_name(mangled: str) -> str:
    """Demangle as PyTorch does; the name stays where it, or the library, gives up."""
    if len(mangled) > _KINETO_LONGEST:
        return mangled
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except OSError:
        pytest.skip("no libstdc++ is installed here")
    demangle.restype, status = ctypes.c_char_p, ctypes.c_int()
    name = demangle(mangled.encode(), None, None, ctypes.byref(status))
    return name.decode() if isinstance(name, bytes) else mangled


class Written(NamedTuple):
    """A part of a name by C++ libraries, and by NVIDIA."""

    library: str
    nvidia: str


def _same(text: str) -> Written:
    return Written(text, text)


def _integer(value: int, kind: tuple[str, str]) -> Written:
    cast, suffix = kind
    return Written(
        f"{abs(value) if 'u' in suffix else value}{suffix}", f"({cast}){abs(value) if 'u' in suffix else value}"
    )


def _pointed(written: Written, how: tuple[str, str, str]) -> Written:
    behind, before, sign = how
    return Written(f"{written.library}{behind}", f"{before}{written.nvidia}{sign}")


def _template(name: Written, arguments: list[Written]) -> Written:
    library = f"{name.library}<{', '.join(argument.library for argument in arguments)}"
    closed = f"{library} >" if library.endswith(">") else f"{library}>"
    return Written(closed, f"{name.nvidia}<{', '.join(argument.nvidia for argument in arguments)}>")


def _scoped(scopes: list[str], is_unnamed: bool, name: str) -> Written:
    written = "".join(f"{scope}::" for scope in scopes)
    if not is_unnamed:
        return _same(f"{written}{name}")
    return Written(f"{written}(anonymous namespace)::{name}", f"{written}<unnamed>::{name}")


_WORDS = st.from_regex(r"[a-z][a-z_0-9]{2,9}", fullmatch=True).filter(
    lambda word: word not in ("true", "false", "const", "operator", "void")
)
_NAMES = st.builds(_scoped, st.lists(_WORDS, max_size=3), st.booleans(), _WORDS)
_KINDS = (
    ("int", ""), ("unsigned int", "u"), ("long", "l"), ("unsigned long", "ul"), ("long long", "ll"),
    ("unsigned long long", "ull"),
)  # fmt: skip
_VALUES = (
    st.builds(_integer, st.integers(-(2**31), 2**31), st.sampled_from(_KINDS))
    | st.sampled_from([Written("true", "(bool)1"), Written("false", "(bool)0")])
    | st.builds(lambda name, value: _same(f"({name}){value}"), _WORDS, st.integers(0, 300))
)
_POINTERS = (("*", "", " *"), (" const*", "const ", " *"), ("&", "", " &"), (" const", "const ", ""), ("**", "", " **"))
_PLAIN = (
    st.sampled_from(["float", "unsigned int", "long", "__half", "unsigned long long", "signed char"]).map(_same)
    | _NAMES
)
_TYPES = st.recursive(
    _PLAIN,
    lambda inner: (
        st.builds(_template, _NAMES, st.lists(inner | _VALUES, min_size=1, max_size=3))
        | st.builds(_pointed, _PLAIN, st.sampled_from(_POINTERS))
    ),
    max_leaves=6,
)
_KERNELS = st.builds(_template, _NAMES, st.lists(_TYPES | _VALUES, min_size=1, max_size=4)).map(
    lambda kernel: Names("", f"void {kernel.nvidia}(T1, int)", f"void {kernel.library}(float*, int)")
)


def _function(name: Written, types: list[Written]) -> Names:
    nvidia, library = (
        ", ".join(spelled)
        for spelled in ([written.nvidia for written in types], [written.library for written in types])
    )
    return Names("", f"{name.nvidia}({nvidia})", f"{name.library}({library})")


MADE_UP = _KERNELS | st.builds(_function, _NAMES, st.lists(_TYPES, max_size=3))
"""Kernels that nobody wrote: templates and functions, by the rules that hold for the real ones."""
