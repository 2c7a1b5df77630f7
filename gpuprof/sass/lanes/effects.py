"""What follows from what an instruction says for all walks: which registers it reads and writes, and what it needs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache, reduce
from itertools import count
from operator import or_
from typing import NamedTuple

from gpuprof.sass.flow.graph import ENDS
from gpuprof.sass.instruction import JUMPS, Instruction, Operation
from gpuprof.sass.lanes.rules import depends_on_walk, needed_for_result
from gpuprof.sass.operands import named, sources, written
from gpuprof.sass.requests import requests
from gpuprof.sass.writes import first_register, may_write

_NAME = re.compile(r"(U?[RP])(\d+)")
_TWO_WORDS = re.compile(r"64|^U?IMAD\..*(?:WIDE|HI)|^D")
_NUMBERS = count()
_LEADS_AWAY = JUMPS | ENDS
_SETS_FLAGS = {"ISETP", "PLOP3", "UISETP", "UPLOP3"}

_BITS: dict[str, int] = {}
_NAMES: list[str] = []


def mask_of(names: Iterable[str]) -> int:
    """Return registers and predicates as an integer with a bit for each."""
    mask = 0
    for name in names:
        bit = _BITS.get(name)
        if bit is None:
            bit = _BITS[name] = 1 << len(_NAMES)
            _NAMES.append(name)
        mask |= bit
    return mask


@lru_cache(maxsize=1 << 12)
def names_of(mask: int) -> frozenset[str]:
    """Return the registers and predicates that a mask stands for."""
    names = []
    while mask:
        low = mask & -mask
        names.append(_NAMES[low.bit_length() - 1])
        mask ^= low
    return frozenset(names)


class Effect(NamedTuple):
    """An operation in a walk; registers and predicates are masks where not said otherwise.

    `reads`: what its results depend on. `gone`: what it may write, and `kills`: what surely holds something else
    afterwards. Nothing is known of any result unless something is of `all_of`, each, and of `some_of`, if there are
    any; never, where it is `blank`. `asks`: it `touches` memory or leads away, for which `needs` matter, and nothing is
    known of its address unless something is of all of `address`. `of_thread`: it reads threadIdx.

    For the walk: a number of what it says, `text`; the names of what it reads, and writes; `strict`, the names of
    `all_of`, where nothing else decides whether something is known; `here`: its results depend on what a walk is
    given, or on which lanes run.
    """

    instruction: Instruction
    reads: int = 0
    gone: int = 0
    kills: int = 0
    guard: int = 0
    all_of: int = 0
    some_of: int = 0
    blank: bool = False
    asks: bool = False
    touches: bool = False
    needs: int = 0
    address: int = 0
    of_thread: bool = False
    text: int = -1
    read_names: tuple[str, ...] = ()
    gone_names: tuple[str, ...] = ()
    needed_names: tuple[str, ...] = ()
    strict: frozenset[str] | None = None
    here: bool = False


@lru_cache(maxsize=1 << 16)
def effect_of(operation: Operation) -> Effect:
    """Return what follows from what an instruction says; its `text` may be another number later on."""
    instruction = Instruction.at(0, operation)
    if instruction.idle:
        return Effect(instruction=instruction, blank=True)
    guard = _named(instruction.predicate or "")
    if instruction.name in _LEADS_AWAY:
        needs = guard | _any_of(map(_named, instruction.operands))
        return Effect(instruction=instruction, blank=True, asks=True, needs=needs, needed_names=tuple(names_of(needs)))
    asked = requests(instruction)
    gone = mask_of(name for name in {*may_write(instruction), *written(instruction)} if name[-1].isdigit())
    two_words = asked or _TWO_WORDS.search(instruction.opcode)
    reads = _any_of(map(_named_with_upper if two_words else _named, sources(instruction)))
    reads |= guard | gone if instruction.predicate else 0
    needs = guard | _any_of(_named_with_upper(request.operand) for request in asked) if asked else 0
    needed = needed_for_result(instruction)
    return Effect(
        instruction=instruction,
        reads=reads,
        gone=gone,
        kills=0 if instruction.predicate else mask_of(_killed(instruction)),
        guard=guard,
        all_of=mask_of(needed.all_of) if needed is not None else 0,
        some_of=mask_of(needed.some_of) if needed is not None else 0,
        blank=needed is None,
        asks=bool(asked),
        touches=bool(asked),
        needs=needs,
        address=mask_of(name for name in named(asked[0].operand) if name[0] != "U") if len(asked) == 1 else 0,
        of_thread=any(operand.startswith("SR_TID") for operand in instruction.operands[1:2]),
        text=next(_NUMBERS),
        read_names=tuple(names_of(reads)),
        gone_names=tuple(names_of(gone)),
        needed_names=tuple(names_of(needs)),
        strict=needed.all_of if needed is not None and needed.all_of and not instruction.predicate else None,
        here=instruction.predicate is not None or depends_on_walk(instruction),
    )


@lru_cache(maxsize=1 << 16)
def _named(operand: str) -> int:
    """Return the registers and predicates that an operand names."""
    return mask_of(named(operand))


@lru_cache(maxsize=1 << 16)
def _named_with_upper(operand: str) -> int:
    """Return the registers that an operand names with the next of each, as it may be of two words, and predicates."""
    split = [(name, name.rstrip("0123456789")) for name in named(operand)]
    return mask_of(
        f"{kind}{int(name[len(kind) :]) + more}" for name, kind in split for more in range(2 if kind[-1] == "R" else 1)
    )


def _any_of(masks: Iterable[int]) -> int:
    return reduce(or_, masks, 0)


def _killed(instruction: Instruction) -> Iterable[str]:
    """Return what surely holds something else afterwards, whatever rule executes the instruction."""
    names = instruction.operands[:2] if instruction.name in _SETS_FLAGS else first_register(instruction)
    return [name for name in names if _NAME.fullmatch(name)]
