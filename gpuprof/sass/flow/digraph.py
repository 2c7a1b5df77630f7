"""Directed graphs of numbered blocks: their order, dominators and natural loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

Edges = Sequence[Sequence[int]]
"""The targets of the edges of each block, by its number."""
_MOST_STEPS = 2_000_000
"""Limit on the steps of searches for dominators and loops; compiled code takes a few for each block."""


def reached(edges: Edges, starts: Iterable[int], stop: int | None = None) -> set[int]:
    """Return the start blocks and all blocks reachable from them. Edges out of the block `stop` are not followed."""
    seen: set[int] = set()
    waiting = list(starts)
    while waiting:
        block = waiting.pop()
        if block not in seen:
            seen.add(block)
            if block != stop:
                waiting += edges[block]
    return seen


class Digraph:
    """A directed graph with entry blocks."""

    def __init__(self, successors: Edges, entries: Sequence[int]) -> None:
        self.successors, self.entries = successors, entries

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Return the reachable blocks in reverse postorder: each after its predecessors, except along back edges."""
        seen: set[int] = set()
        order: list[int] = []
        for entry in self.entries:
            waiting = [(entry, iter(self.successors[entry]))] if entry not in seen else []
            seen.add(entry)
            while waiting:
                successor = next((successor for successor in waiting[-1][1] if successor not in seen), None)
                if successor is None:
                    order.append(waiting.pop()[0])
                else:
                    seen.add(successor)
                    waiting.append((successor, iter(self.successors[successor])))
        return tuple(reversed(order))

    @cached_property
    def predecessors(self) -> Sequence[Sequence[int]]:
        """Return the reachable predecessors of each block."""
        predecessors: list[list[int]] = [[] for _ in self.successors]
        for block in sorted(self.order):
            for successor in self.successors[block]:
                predecessors[successor].append(block)
        return predecessors

    @cached_property
    def dominators(self) -> Mapping[int, int]:
        """Map each reachable block to its immediate dominator, or to itself if it has none.

        By Cooper, Harvey and Kennedy, A Simple, Fast Dominance Algorithm (2001). Its steps may grow with the square of
        the blocks if no compiler wrote the code: with too many, no block has a dominator.
        """
        places = {block: place for place, block in enumerate(self.order, 1)}
        sources = [sorted((places[source] for source in self.predecessors[block]), reverse=True) for block in places]
        above = {0: 0}
        left = _MOST_STEPS
        changed = True
        while changed and left > 0:
            changed = False
            for block, place in places.items():
                known = [source for source in sources[place - 1] if source in above]
                nearest, steps = _common(above, [0] if block in self.entries else known, left)
                left -= steps
                if above.get(place) != nearest:
                    above[place] = nearest
                    changed = True
        if left <= 0:
            return {block: block for block in places}
        return {block: self.order[above[place] - 1] if above[place] else block for block, place in places.items()}

    @cached_property
    def loops(self) -> Mapping[int, frozenset[int]]:
        """Map the header of each natural loop to its body.

        A back edge leads to a block, the header, that dominates its source (Aho, Sethi, Ullman: Compilers, 10.4). The
        body is all blocks that reach a back edge without passing the header. Back edges to one header make one loop.
        """
        places = {block: place for place, block in enumerate(self.order)}
        back: dict[int, list[int]] = {}
        left = _MOST_STEPS
        for block in sorted(places):
            for header in self.successors[block]:
                above = block
                while left > 0 and places[above] > places[header] and self.dominators[above] != above:
                    above = self.dominators[above]
                    left -= 1
                if above == header:
                    back.setdefault(header, []).append(block)
        loops: dict[int, frozenset[int]] = {}
        for header, ends in back.items():
            if left <= 0:
                return {}
            loops[header] = frozenset(reached(self.predecessors, [header, *ends], stop=header))
            left -= len(loops[header])
        return loops


def _common(above: Mapping[int, int], places: Sequence[int], most_steps: int) -> tuple[int, int]:
    """Return the nearest common dominator of these places, and the number of steps to it."""
    nearest = places[0]
    steps = 0
    for place in places:
        other = place
        while nearest != other and steps < most_steps:
            steps += 1
            if nearest > other:
                nearest = above[nearest]
            else:
                other = above[other]
    return nearest, steps
