"""From the records that blocks leave to the window of a launch: nanoseconds, cycles of an SM, how many SMs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Window(NamedTuple):
    """From the first block's begin to the last one's end; `cycles` are those of the SM that took longest."""

    nanoseconds: int
    cycles: int
    sms: int


def missing(records: NDArray[np.void]) -> int:
    """Return how many blocks have left no record: they did not run, or not to their end."""
    return int(((records["end_ns"] == 0) | (records["end_cycles"] <= records["begin_cycles"])).sum())


def window(records: NDArray[np.void]) -> Window:
    """Return the window of all blocks. clock64 counts for each SM, globaltimer for all of them."""
    _, cycles = _spans(records)
    return Window(int(records["end_ns"].max() - records["begin_ns"].min()), int(cycles.max()), len(cycles))


def sm_cycles(records: NDArray[np.void]) -> dict[int, int]:
    """Return for each SM the cycles from its first block's begin to its last one's end."""
    return {int(sm): int(cycles) for sm, cycles in zip(*_spans(records), strict=True)}


def _spans(records: NDArray[np.void]) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    import numpy as np

    order = np.argsort(records["sm"], kind="stable")
    sms, starts = np.unique(records["sm"][order], return_index=True)
    begins = np.minimum.reduceat(records["begin_cycles"][order], starts)
    ends = np.maximum.reduceat(records["end_cycles"][order], starts)
    return sms, ends - begins


def first_wave(records: NDArray[np.void]) -> int:
    """Return how many blocks ran at once: those that began before any other had ended."""
    return int((records["begin_ns"] < records["end_ns"].min()).sum())


def most_at_once(records: NDArray[np.void]) -> dict[int, int]:
    """Return for each SM the most blocks that overlapped on it, by its own clock."""
    import numpy as np

    by_sm = {}
    for sm in np.unique(records["sm"]):
        mine = records[records["sm"] == sm]
        times = np.concatenate([mine["begin_cycles"], mine["end_cycles"]]).astype(np.int64)
        steps = np.concatenate([np.ones(len(mine), np.int64), -np.ones(len(mine), np.int64)])
        # At one and the same time an end comes before a begin.
        order = np.lexsort((steps, times))
        by_sm[int(sm)] = int(np.cumsum(steps[order]).max())
    return by_sm
