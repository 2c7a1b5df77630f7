"""Finds dominators: of each block of a control flow graph the last that lies on every way to it; and natural loops.

By Lengauer and Tarjan, A Fast Algorithm for Finding Dominators in a Flowgraph (1979), without balancing the trees, so
that code of any shape takes little more than linear time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

Successors = Sequence[Sequence[int]]
"""For each basic block, the blocks that can follow it."""
_MOST_IN_LOOPS = 2_000_000
"""Blocks of all loops together, each as often as it is in one: thousands of loops within loops are no compiler's."""


def immediate_dominators(graph: Successors, entry: int) -> dict[int, int]:
    """Return of each block that is reached from the entry the last of the others that lie on every way to it."""
    order, parents = _depth_first(graph, entry)
    number = {block: place for place, block in enumerate(order)}
    before: list[list[int]] = [[] for _ in order]
    for place, block in enumerate(order):
        for successor in graph[block]:
            before[number[successor]].append(place)
    return {order[place]: order[dominator] for place, dominator in _numbered(before, parents)}


def _numbered(before: Sequence[Sequence[int]], parents: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the dominator of each block but the first, all by their numbers in the order of a search in depth."""
    count = len(parents)
    semi, dominators = list(range(count)), [0] * count
    forest = _Forest(semi)
    buckets: list[list[int]] = [[] for _ in range(count)]
    for place in range(count - 1, 0, -1):
        parent = parents[place]
        semi[place] = min((semi[forest.least(source)] for source in before[place]), default=parent)
        buckets[semi[place]].append(place)
        forest.link(parent, place)
        for waiting in buckets[parent]:
            least = forest.least(waiting)
            dominators[waiting] = least if semi[least] < semi[waiting] else parent
        buckets[parent].clear()
    for place in range(1, count):
        if dominators[place] != semi[place]:
            dominators[place] = dominators[dominators[place]]
        yield place, dominators[place]


class _Forest:
    """A forest of visited blocks; for each, the block of the least semidominator on the path up."""

    def __init__(self, semi: Sequence[int]) -> None:
        self._semi = semi
        self._above = [-1] * len(semi)
        self._least = list(range(len(semi)))

    def link(self, parent: int, place: int) -> None:
        self._above[place] = parent

    def least(self, place: int) -> int:
        """Return the block of the least semidominator between a block and the root of its tree, without the root."""
        above, least, semi = self._above, self._least, self._semi
        if above[place] < 0:
            return place
        path = [place]
        while above[above[path[-1]]] >= 0:
            path.append(above[path[-1]])
        for step in reversed(path[:-1]):
            over = above[step]
            if semi[least[over]] < semi[least[step]]:
                least[step] = least[over]
            above[step] = above[over]
        return least[place]


def _depth_first(graph: Successors, entry: int) -> tuple[list[int], list[int]]:
    """Return the blocks in the order of a search in depth, and of each the number of that which it was found from."""
    order, parents = [entry], [0]
    seen = {entry}
    waiting = [(0, iter(graph[entry]))]
    while waiting:
        place, successors = waiting[-1]
        block = next((successor for successor in successors if successor not in seen), None)
        if block is None:
            waiting.pop()
            continue
        seen.add(block)
        order.append(block)
        parents.append(place)
        waiting.append((len(order) - 1, iter(graph[block])))
    return order, parents


class DominatorTree:
    """Which block dominates which."""

    def __init__(self, graph: Successors, entry: int) -> None:
        self.immediate = immediate_dominators(graph, entry)
        below: dict[int, list[int]] = {entry: []}
        for block, dominator in self.immediate.items():
            below.setdefault(dominator, []).append(block)
        self._begins: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        waiting = [(entry, False)]
        while waiting:
            block, done = waiting.pop()
            if done:
                self._ends[block] = len(self._begins)
                continue
            self._begins[block] = len(self._begins)
            waiting.append((block, True))
            waiting += [(inner, False) for inner in below.get(block, ())]

    def dominates(self, dominator: int, block: int) -> bool:
        """Return whether every path from the entry to a block leads over another, or it is that one."""
        if dominator not in self._begins or block not in self._begins:
            return False
        return self._begins[dominator] <= self._begins[block] < self._ends[dominator]

    @property
    def reached(self) -> Collection[int]:
        """Return the blocks that are reached from the entry."""
        return self._begins.keys()


def natural_loops(graph: Successors, tree: DominatorTree) -> dict[int, frozenset[int]]:
    """Return header → body of each loop: the target of a jump back, and what reaches that jump without passing it.

    A jump back leads to a block that lies on every way to it (Aho, Sethi, Ullman: Compilers, 10.4). Jumps that share
    a header make one loop; what cannot be reached makes none.
    """
    before: list[list[int]] = [[] for _ in graph]
    back: list[tuple[int, int]] = []
    for block in tree.reached:
        for successor in graph[block]:
            before[successor].append(block)
            if tree.dominates(successor, block):
                back.append((block, successor))
    loops: dict[int, set[int]] = {}
    room = _MOST_IN_LOOPS
    for block, header in sorted(back):
        body = loops.setdefault(header, {header})
        room += len(body)
        _add_with_predecessors(body, block, before)
        room -= len(body)
        if room < 0:
            return {}
    return {header: frozenset(body) for header, body in loops.items()}


def _add_with_predecessors(seen: set[int], block: int, before: Sequence[Sequence[int]]) -> None:
    """Add a block to those that were seen, and all that lead to it without passing those."""
    waiting = [block]
    while waiting:
        block = waiting.pop()
        if block not in seen:
            seen.add(block)
            waiting += before[block]
