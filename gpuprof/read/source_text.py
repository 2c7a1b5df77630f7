"""The SASS of functions, by their code: from memory, from the user's cache, or from one call of nvdisasm for many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gpuprof.errors import EnvironmentProblem
from gpuprof.model.recorded import SASS_TEXT, Missing
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES
from gpuprof.sass.tools.disassemble import Disassembler, PlacedText, brings, disassembler_for, placed_texts
from gpuprof.sass.tools.user_cache import UserCache, key_of, user_cache

_KIND = "function text 1"
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
    """The texts of functions that were asked for; of what nvdisasm cannot read, why. It is asked once."""

    __slots__ = ("_cache", "_held", "_texts")

    def __init__(self, cache: UserCache | None = None) -> None:
        self._cache = cache if cache is not None else user_cache()
        self._texts: dict[FunctionCode, FunctionText | Missing] = {}
        self._held = 0

    def knows(self, function: FunctionCode) -> bool:
        """Tell whether a function was learned, whether it has a text or not."""
        return function in self._texts

    def text(self, function: FunctionCode) -> FunctionText | None:
        """Return the text of a function that was learned; None where it is not known."""
        text = self._texts.get(function)
        return None if isinstance(text, Missing) else text

    def without_text(self, function: FunctionCode) -> Missing | None:
        """Return why a function has no text; None if it has."""
        text = self._texts.get(function)
        return text if isinstance(text, Missing) else None

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
            tool, count = disassembler_for(function.target), len(function.code) // INSTRUCTION_BYTES
            if tool is None:
                self._texts[function] = _no_tool(function.target)
                continue
            text = _unpacked(self._cache.read(_key(tool, function), _MOST_TEXT * count), count)
            if text is None:
                unread.append(function)
            else:
                self._keep(function, text)
        return unread

    def _ask(self, target: str, functions: Sequence[FunctionCode]) -> None:
        """Have functions of one target disassembled."""
        tool = disassembler_for(target)
        if tool is None:
            self._texts.update(dict.fromkeys(functions, _no_tool(target)))
            return
        texts: Sequence[FunctionText | str]
        try:
            texts = placed_texts(tool, target, [function.code for function in functions])
        except EnvironmentProblem as error:
            texts = [error.message] * len(functions)
        for function, text in zip(functions, texts, strict=True):
            if isinstance(text, str):
                self._texts[function] = Missing(SASS_TEXT, text, brings(target, newer=True))
            else:
                self._keep(function, text)
                self._cache.write(_key(tool, function), _packed(text))

    def _keep(self, function: FunctionCode, text: FunctionText) -> None:
        self._texts[function] = text
        self._held += len(text)


def _no_tool(target: str) -> Missing:
    return Missing(SASS_TEXT, f"no nvdisasm at hand reads code for {target:.40}", brings(target))


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
