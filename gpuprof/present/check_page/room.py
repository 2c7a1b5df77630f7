"""How much of each kernel the page has room for: of few kernels everything, of hundreds what matters most."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from gpuprof.present.check_blocks import Block

_PARTS, _ACCESSES, _LOOPS, _PLACES, _NAMES = 800, 3000, 3000, 3000, 400_000
"""Rows and characters that all kernels of a page share: with them, a page of 500 kernels stays below 5 MB."""

_FEW = 3
"""So many kernels are shown open; of more, the reader opens those that he looks for."""
_REPEATED = 100
"""Findings up to which each has its advice in full; of more, the later ones lead to the first with the same."""


class Room(Struct, frozen=True, kw_only=True):
    """Rows that a table of a kernel has at most, and characters of its whole name.

    `parts` are the architectures and launch configurations with loops and accesses of their own.
    """

    parts: int
    accesses: int
    loops: int
    places: int
    name: int
    repeats: bool
    is_open: bool

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> Room:
        """Return what each kernel may take."""
        number = len(blocks) or 1
        parts = _share(_PARTS, number, least=1, most=8)
        findings = sum(len(block.findings) for block in blocks) or 1
        return cls(
            parts=parts,
            accesses=_share(_ACCESSES, number, least=6, most=80),
            loops=_share(_LOOPS, number, least=6, most=60),
            places=_share(_PLACES, findings, least=2, most=20),
            name=_share(_NAMES, number, least=200, most=4000),
            repeats=findings <= _REPEATED,
            is_open=len(blocks) <= _FEW,
        )


def _share(whole: int, number: int, *, least: int, most: int) -> int:
    return min(most, max(least, whole // number))
