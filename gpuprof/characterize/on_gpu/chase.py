"""Random cycles of addresses: what a chase walks along, and where a walk must come to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Cycle:
    """A cycle through nodes; `order` has them as they are visited."""

    order: NDArray[np.uint32]

    @cached_property
    def following(self) -> NDArray[np.uint32]:
        """Return for each node the one that comes after it."""
        import numpy as np

        following = np.empty_like(self.order)
        following[self.order[:-1]] = self.order[1:]
        following[self.order[-1]] = self.order[0]
        return following

    @cached_property
    def places(self) -> NDArray[np.uint32]:
        """Return for each node when it is visited."""
        import numpy as np

        places = np.empty_like(self.order)
        places[self.order] = np.arange(len(self.order), dtype=np.uint32)
        return places


@dataclass(frozen=True)
class Chase:
    """A cycle laid out in memory from `base` on, its nodes `stride` bytes apart."""

    base: int
    stride: int
    cycle: Cycle

    def words(self) -> NDArray[np.uint64]:
        """Return what each node holds: the address of the one that comes after it."""
        import numpy as np

        addresses = self.cycle.following.astype(np.uint64)
        addresses *= np.uint64(self.stride)
        addresses += np.uint64(self.base)
        return addresses

    def after(self, address: int, steps: int) -> int | None:
        """Return the address that so many loads from a node lead to; None if the address is no node."""
        order = self.cycle.order
        node, rest = divmod(address - self.base, self.stride)
        if rest or not 0 <= node < len(order):
            return None
        place = (int(self.cycle.places[node]) + steps) % len(order)
        return self.base + int(order[place]) * self.stride


def random_cycle(nodes: int, per_window: int | None, seed: int) -> NDArray[np.uint32]:
    """Return the nodes in the order of a random cycle through all of them; window after window where there are some.

    A cycle in random order is as good as what Sattolo's algorithm draws: every cycle is equally likely.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    order = np.arange(nodes, dtype=np.uint32)
    if per_window is None or per_window >= nodes:
        generator.shuffle(order)
        return order
    whole = nodes - nodes % per_window
    generator.permuted(order[:whole].reshape(-1, per_window), axis=1, out=order[:whole].reshape(-1, per_window))
    generator.shuffle(order[whole:])
    return order


def chase(base: int, size: int, stride: int, window_bytes: float | None, seed: int) -> Chase:
    """Return a cycle through a buffer at `base`. Raises ValueError for a buffer that holds fewer than two nodes."""
    nodes = size // stride
    if nodes < 2:
        raise ValueError(f"{size} bytes hold {nodes} nodes {stride} bytes apart; a chase needs two")
    per_window = max(1, int(window_bytes // stride)) if window_bytes is not None else None
    return Chase(base, stride, _cycle(nodes, per_window, seed))


@lru_cache(maxsize=1)
def _cycle(nodes: int, per_window: int | None, seed: int) -> Cycle:
    """Return a cycle; the last one is kept, for the next allocation of the same buffer."""
    return Cycle(random_cycle(nodes, per_window, seed))
