"""Tells which architecture a cubin is for, by the flags and sections in which toolkits before and since CUDA 13 say so.

The places were found by compiling for every architecture and comparing with what cuobjdump says.
"""

from __future__ import annotations

import re

from gpuprof.sass.binary.cubin_attributes import attributes
from gpuprof.sass.binary.elf import Elf

NEW_ABI = 8
"""The ABI version from which the flags of the header have the architecture in bits 8 to 23: CUDA 13, and Blackwell."""
_ACCELERATED_OLD, _ACCELERATED_NEW = 1 << 11, 1 << 3
_ACCELERATED = 0x09
"""The attribute of `.nv.compat` that cuobjdump names EICOMPAT_ATTR_CUDA_ACCELERATOR_TARGET."""
_FAMILY = re.compile(rb"-arch[ =]sm_(\d+)f\b")
"""Of a family only the options of ptxas tell, which `.note.nv.tkinfo` has since CUDA 12.9."""


def target_of(elf: Elf) -> str:
    """Return the architecture, with the letter of one whose code runs on that alone (a) or on its family (f)."""
    if elf.abi_version < NEW_ABI:
        return f"sm_{elf.flags & 0xFF}{'a' if elf.flags & _ACCELERATED_OLD else ''}"
    number = elf.flags >> 8 & 0xFFFF
    compat, tools = elf.named(b".nv.compat"), elf.named(b".note.nv.tkinfo")
    accelerated = elf.flags & _ACCELERATED_NEW or (compat is not None and _is_accelerated(elf.content(compat)))
    if accelerated:
        return f"sm_{number}a"
    families = set(_FAMILY.findall(elf.content(tools))) if tools is not None else set()
    return f"sm_{number}f" if families == {b"%d" % number} else f"sm_{number}"


def _is_accelerated(compat: bytes) -> bool:
    return any(number == _ACCELERATED and value[:1] == b"\1" for number, value in attributes(compat))
