"""Demangles the names of C++ kernels with the demangler of the system's C++ library.

That of libstdc++ refuses names of more than 1,024 characters, which CUTLASS's kernels have (DEMANGLE_RECURSION_LIMIT in
GCC's cp-demangle.c); for those, c++filt of binutils or LLVM is called if one is installed.

Hostile names may end a demangler: some are short and demangle to gigabytes, others are nested so deep that it overflows
its stack. So it runs in a process of its own, with little memory and time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from time import monotonic

from gpuprof.working_folder import program_on_path

_MANGLED = "_Z"
"""How names begin that C++ compilers mangle (Itanium C++ ABI, 5.1)."""
_LONGEST_NAME = 1 << 20
_PATIENCE_S = 20.0
"""For all names together. One that takes 0.3 s of a processor ends the process."""
_MOST_DEATHS = 4
"""After so many names that ended the process, the others stay mangled."""
_FILTERS = (("c++filt", "-r"), ("llvm-cxxfilt",))
_DEMANGLER = """
import ctypes, sys
for name in ("libstdc++.so.6", "libc++abi.so.1", "libc++.so.1", "libc++.1.dylib"):
    try:
        demangle, system = ctypes.CDLL(name).__cxa_demangle, ctypes.CDLL(None)
        break
    except (OSError, AttributeError, TypeError):
        pass
else:
    sys.exit()
try:
    import resource, signal
    for what, most in ((resource.RLIMIT_AS, 1 << 29), (resource.RLIMIT_CPU, 10), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(what, (most, most))
    within = lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 0.3)
    within()
except (ImportError, AttributeError, OSError, ValueError):
    within = lambda: None
demangle.restype, system.strlen.restype = ctypes.c_void_p, ctypes.c_size_t
system.strlen.argtypes = system.free.argtypes = (ctypes.c_void_p,)
filter, calls, left = sys.argv[1:], 1000, 1 << 26
for line in sys.stdin.buffer.read().split():
    within()
    text = demangle(line, None, None, None)
    size = system.strlen(text) if text else 0
    said = ctypes.string_at(text, size) if 0 < size < 1 << 20 else line
    system.free(text)
    if filter and not size and 1024 < len(line) < 100000 and calls:
        import subprocess
        calls -= 1
        try:
            asked = [*filter, line]
            said = subprocess.run(asked, capture_output=True, timeout=1).stdout[: 1 << 20].strip() or line
        except (OSError, subprocess.SubprocessError):
            pass
    left -= max(size, len(said))
    if left < 0:
        sys.exit()
    sys.stdout.buffer.write(said.replace(b"\\n", b" ") + b"\\n")
    sys.stdout.buffer.flush()
"""


def demangled(names: Sequence[str]) -> Mapping[str, str]:
    """Return the C++ names of mangled ones; any other name, and one that cannot be demangled, stays as it is."""
    texts = {name: name for name in names}
    waiting = [name for name in texts if _is_mangled(name)]
    until = monotonic() + _PATIENCE_S
    for _ in range(_MOST_DEATHS):
        if not waiting or monotonic() > until:
            break
        answers = _answers(waiting, until - monotonic())
        texts.update(zip(waiting, answers, strict=False))
        # Behind the last answer is the name that ended the process.
        waiting = waiting[len(answers) + 1 :]
    return texts


def _is_mangled(name: str) -> bool:
    return name.startswith(_MANGLED) and len(name) <= _LONGEST_NAME and name.isprintable() and " " not in name


def _answers(names: Sequence[str], patience_s: float) -> list[str]:
    """Return the demangled names of the first of these, up to the one that ends the process."""
    if not sys.executable:
        return []
    command = [sys.executable, "-I", "-S", "-c", _DEMANGLER, *_filter()]
    asked = "\n".join(names).encode()
    try:
        said = subprocess.run(
            command, input=asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, timeout=patience_s
        ).stdout
    except subprocess.TimeoutExpired as error:
        said = error.stdout or b""
    except OSError:
        said = b""
    return [line.decode("utf-8", "replace") for line in said.split(b"\n")[:-1]]


def _filter() -> list[str]:
    """Return the command of a program that demangles long names; empty if there is none."""
    for name, *options in _FILTERS:
        program = program_on_path(name, os.environ)
        if program is not None:
            return [program, *options]
    return []
