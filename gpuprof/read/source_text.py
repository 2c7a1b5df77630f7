"""The SASS of functions, by their code: from memory, from the user's cache, or from one call of nvdisasm for many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from gpuprof.code.binary.elf import INSTRUCTION_BYTES
from gpuprof.code.tools.disassemble import Disassembler, PlacedText, disassembler_for, placed_texts
from gpuprof.code.tools.user_cache import UserCache, key_of, user_cache
from gpuprof.errors import EnvironmentProblem

_KIND = "function text 1"
_OLDEST = (12, 8)
"""The oldest nvdisasm of which it was found that it says what NVIDIA's reader of reports says."""
_MOST_KEPT = 1 << 18
"""Instructions whose text stays in memory."""
_MOST_TEXT = 4096
"""Bytes of an instruction's text; they have 100 at most."""
_JUMP = "\t"


class FunctionCode(NamedTuple):
    """The machine code of a function, and what it is for, such as "sm_90"."""

    target: str
    code: bytes


FunctionText = Sequence[PlacedText]


class TextStore:
    """The texts of functions that were asked for. What nvdisasm cannot read is asked once and then not known."""

    __slots__ = ("_cache", "_held", "_texts")

    def __init__(self, cache: UserCache | None = None) -> None:
        self._cache = cache if cache is not None else user_cache()
        self._texts: dict[FunctionCode, FunctionText | None] = {}
        self._held = 0

    def knows(self, function: FunctionCode) -> bool:
        """Tell whether a function was learned, whether it has a text or not."""
        return function in self._texts

    def reads(self, target: str) -> bool:
        """Tell whether an nvdisasm is here that may know the target."""
        return _tool_for(target) is not None

    def text(self, function: FunctionCode) -> FunctionText | None:
        """Return the text of a function that was learned; None where it is not known."""
        return self._texts.get(function)

    def learn(
        self, functions: Iterable[FunctionCode], ahead: Callable[[], Iterable[FunctionCode]] | None = None
    ) -> None:
        """Read the texts of functions. Where nvdisasm is started for one, it also reads those that `ahead` gives."""
        if self._held > _MOST_KEPT:
            self._texts.clear()
            self._held = 0
        new = [function for function in functions if function not in self._texts]
        unread = self._recalled(new)
        if unread and ahead is not None:
            unread += self._recalled([code for code in ahead() if code not in self._texts and code not in unread])
        for target in dict.fromkeys(function.target for function in unread):
            self._ask(target, [function for function in unread if function.target == target])

    def _recalled(self, functions: Iterable[FunctionCode]) -> list[FunctionCode]:
        """Take from the cache what it has, and return the functions that are to be disassembled."""
        unread = []
        for function in dict.fromkeys(functions):
            tool, count = _tool_for(function.target), len(function.code) // INSTRUCTION_BYTES
            if tool is None:
                self._texts[function] = None
                continue
            text = _unpacked(self._cache.read(_key(tool, function), _MOST_TEXT * count), count)
            if text is None:
                unread.append(function)
            else:
                self._keep(function, text)
        return unread

    def _ask(self, target: str, functions: Sequence[FunctionCode]) -> None:
        """Have functions of one target disassembled; those that nvdisasm cannot read are not known."""
        tool = _tool_for(target)
        texts: Sequence[FunctionText | str]
        try:
            texts = placed_texts(tool, target, [function.code for function in functions]) if tool is not None else []
        except EnvironmentProblem:
            texts = []
        for function, text in zip_longest(functions, texts):
            if text is None or isinstance(text, str) or tool is None:
                self._texts[function] = None
            else:
                self._keep(function, text)
                self._cache.write(_key(tool, function), _packed(text))

    def _keep(self, function: FunctionCode, text: FunctionText) -> None:
        self._texts[function] = text
        self._held += len(text)


def _tool_for(target: str) -> Disassembler | None:
    tool = disassembler_for(target)
    return tool if tool is not None and tool.version >= _OLDEST else None


def _key(tool: Disassembler, function: FunctionCode) -> str:
    return key_of(_KIND, str(tool), *function)


def _packed(text: FunctionText) -> bytes:
    """Write a line for each instruction, and behind a tab how far what it names is from the start."""
    lines = (item.text if item.jump is None else f"{item.text}{_JUMP}{item.jump:x}" for item in text)
    return "\n".join(lines).encode()


def _unpacked(content: bytes | None, count: int) -> FunctionText | None:
    """Read such lines; None where they are not those of so many instructions."""
    if content is None:
        return None
    try:
        lines = content.decode().split("\n") if content else []
        text = [_item(line) for line in lines]
    except ValueError:
        return None
    return text if len(text) == count else None


def _item(line: str) -> PlacedText:
    if _JUMP not in line:
        return PlacedText(line)
    text, _, jump = line.partition(_JUMP)
    return PlacedText(text, int(jump, 16))
