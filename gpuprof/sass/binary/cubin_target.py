"""The architecture of a cubin, by the flags and sections in which toolkits before and since CUDA 13 give it.

The places were found by compiling for every architecture and comparing with the output of cuobjdump.
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
"""A family is only in the options of ptxas, which `.note.nv.tkinfo` has since CUDA 12.9."""


def target_of(elf: Elf) -> str:
    """Return the architecture, with `a` if the code runs on that alone and `f` if it runs on its family."""
    if elf.abi_version < NEW_ABI:
        return f"sm_{elf.flags & 0xFF}{'a' if elf.flags & _ACCELERATED_OLD else ''}"
    number = elf.flags >> 8 & 0xFFFF
    compat = attributes(elf.named(".nv.compat"))
    if elf.flags & _ACCELERATED_NEW or any(value[:1] == b"\1" for value in compat.get(_ACCELERATED, ())):
        return f"sm_{number}a"
    families = set(_FAMILY.findall(elf.named(".note.nv.tkinfo")))
    return f"sm_{number}f" if families == {b"%d" % number} else f"sm_{number}"
