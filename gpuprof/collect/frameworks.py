"""Frameworks that preallocate the memory that ncu needs, and the variables that keep them from it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuprof.collect.python_imports import imported
from gpuprof.collect.ranks import launcher_of


@dataclass(frozen=True, slots=True)
class Preallocator:
    """A framework by the packages that bring it, and the variable by which it takes memory only as it needs it.

    Without that it takes nearly all of the GPU's memory at its start, and ncu, which saves what a kernel can reach
    before it repeats it, has no room.
    """

    name: str
    packages: frozenset[str]
    variable: str
    value: str


PREALLOCATORS = (
    Preallocator(
        "JAX", frozenset({"jax", "jaxlib", "flax", "equinox"}), "XLA_PYTHON_CLIENT_PREALLOCATE", value="false"
    ),
    Preallocator("TensorFlow", frozenset({"tensorflow", "keras"}), "TF_FORCE_GPU_ALLOW_GROWTH", value="true"),
)


def variables_for(program: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to be set for a program under ncu; what the user has set stays."""
    own = _own(program)
    names = imported(own)
    return {
        framework.variable: framework.value
        for framework in PREALLOCATORS
        if framework.variable not in environ
        and (framework.packages & names if names is not None else not _is_binary(own))
    }


def remark_on(program: Sequence[str], variables: Mapping[str, str]) -> str | None:
    """Return what to tell the user of variables that were set, if the program is known to heed them."""
    names = imported(_own(program)) or frozenset()
    heeded = [
        framework for framework in PREALLOCATORS if framework.packages & names and framework.variable in variables
    ]
    if not heeded:
        return None
    set_to = " and ".join(f"{framework.variable}={framework.value}" for framework in heeded)
    named = " and ".join(framework.name for framework in heeded)
    return f"{set_to} is set under ncu: otherwise {named} would take nearly all GPU memory"


def _own(program: Sequence[str]) -> Sequence[str]:
    """Return what a launcher of ranks starts; any other program is its own."""
    launcher = launcher_of(program)
    if launcher is None:
        return program
    if launcher.at is not None:
        return program[launcher.at :]
    scripts = [word for word in program[1:] if word.endswith(".py")]
    return (launcher.python or "python3", *scripts[:1])


def _is_binary(program: Sequence[str]) -> bool:
    try:
        with Path(shutil.which(program[0]) or program[0]).open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False
