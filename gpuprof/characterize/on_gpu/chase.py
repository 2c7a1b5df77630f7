"""Random cycles of addresses: what a chase walks along, and where a walk must come to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Chase:
    """A cycle through nodes `stride` bytes apart; `order` has the nodes as they are visited."""

    base: int
    stride: int
    order: NDArray[np.int64]

    def words(self) -> NDArray[np.uint64]:
        """Return what each node holds: the address of the one that comes after it."""
        import numpy as np

        following = np.empty(len(self.order), dtype=np.uint64)
        following[self.order] = np.roll(self.order, -1).astype(np.uint64)
        return following * np.uint64(self.stride) + np.uint64(self.base)

    def after(self, address: int, steps: int) -> int | None:
        """Return the address that so many loads from a node lead to; None if the address is no node."""
        node, rest = divmod(address - self.base, self.stride)
        if rest or not 0 <= node < len(self.order):
            return None
        place = (int(self._places[node]) + steps) % len(self.order)
        return self.base + int(self.order[place]) * self.stride

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Return for each node when it is visited."""
        import numpy as np

        places = np.empty(len(self.order), dtype=np.int64)
        places[self.order] = np.arange(len(self.order))
        return places


def random_cycle(nodes: int, per_window: int | None, seed: int) -> NDArray[np.int64]:
    """Return the nodes in the order of a random cycle through all of them; window after window where there are some.

    A cycle in random order is as good as what Sattolo's algorithm draws: every cycle is equally likely.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    if per_window is None or per_window >= nodes:
        return generator.permutation(nodes)
    whole = nodes - nodes % per_window
    windows = generator.permuted(np.arange(whole).reshape(-1, per_window), axis=1).reshape(-1)
    return np.concatenate([windows, whole + generator.permutation(nodes - whole)])


def chase(base: int, size: int, stride: int, window_bytes: float | None, seed: int) -> Chase:
    """Return a cycle through a buffer at `base`. Raises ValueError for a buffer that holds fewer than two nodes."""
    nodes = size // stride
    if nodes < 2:
        raise ValueError(f"{size} bytes hold {nodes} nodes {stride} bytes apart; a chase needs two")
    per_window = max(1, int(window_bytes // stride)) if window_bytes is not None else None
    return Chase(base, stride, random_cycle(nodes, per_window, seed))
