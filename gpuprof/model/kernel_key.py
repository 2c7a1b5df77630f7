"""Which kernel a demangled name means, whichever demangler wrote it.

NVIDIA's writes `void f<(int)4, (bool)1>(const float *, T1)`, that of C++ libraries, which PyTorch's traces have,
`void f<4, true>(float const*, int)`: they differ in casts, spaces, the place of const, what is written for a
parameter's type, and how lambdas and unnamed namespaces are called.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gpuprof.model.kernel_names import parse_name

_WORD = re.compile(r"[A-Za-z_$][\w$.]*|\d+|[@()<>]")
_LAMBDA = re.compile(r"\(instance (\d+)\)|#(\d+)(?=})")
_IGNORED = frozenset(("const", "void", "lambda"))


@lru_cache(maxsize=8192)
def kernel_key(demangled: str) -> str:
    """Return the same text for all ways to write one kernel's name, and different ones for different kernels.

    Of a template's parameters nothing is kept: its arguments tell its kernels apart.
    """
    text = _LAMBDA.sub(lambda found: f"@{found[1] or found[2]}", parse_name(demangled).text)
    is_template = "<" in text.partition("(")[0].replace("operator<", "")
    kept: list[str] = []
    depth, angles = 0, 0
    for word in _WORD.findall(text):
        if word in "()":
            depth += 1 if word == "(" else -1
        elif word in "<>":
            angles += 0 if depth else 1 if word == "<" else -1
        elif word not in _IGNORED and (depth == 0 or (not is_template and angles == 0)):
            kept.append(word)
    return " ".join(kept)
