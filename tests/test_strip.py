"""The drawn timeline: bins worked out by hand, what a page draws of them, and hostile names and sessions."""

from __future__ import annotations

import math

from msgspec.structs import replace

from gpuprof.model.session import Session, StripRow, TimeStrip
from gpuprof.timeline.intervals import binned
from gpuprof.timeline.strip import BINS
from gpuprof.timeline.trace import HostWait
from gpuprof.views.timeline_figure import timeline_figures
from tests.test_judged import step
from tests.test_timeline import copy, device, kernel, session, trace

EXCHANGE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
HOSTILE = "</title></svg><script>document.title='hacked'</script>"


def some(first: str = "first") -> Session:
    """270 µs of a GPU, a bin for each: kernels that overlap, a copy, and exchange after a long pause."""
    last = kernel(EXCHANGE, 269, 1)
    return session(trace(kernel(first, 0, 1.5), kernel("second", 1.25, 0.75), copy("host to device", 3, 1, 8), last))


def strip(read: Session) -> TimeStrip:
    drawn = device(read).strip
    assert drawn is not None
    return drawn


def row(read: Session, kind: str, label: str | None = None) -> StripRow:
    names = {one.id: one.demangled for one in read.kernels}
    return next(
        each
        for each in strip(read).rows
        if each.kind == kind and (each.kernel is not None and names[each.kernel]) == (label or False)
    )


def test_kernels_that_overlap_share_the_time_of_a_bin_and_copies_and_exchange_have_rows_of_their_own() -> None:
    assert binned([(10.5, 12.25), (11.0, 11.5), (14.0, 15.0)], 10.0, 1.0, 5) == [0.5, 1.5, 0.25, 0.0, 1.0]
    assert binned([(0.0, 4.0)], 0.0, 4.0, 1) == [4.0]
    found = some()
    assert [place for place, busy in enumerate(row(found, "copies").busy) if busy] == [3]
    assert [place for place, busy in enumerate(row(found, "exchange").busy) if busy] == [BINS - 1]
    assert [each.kind for each in strip(found).rows] == ["kernels", "kernels", "copies", "exchange"]
    assert math.isclose(strip(found).bin_s, 1e-6)
    # Of the second microsecond the first kernel takes half and the second three quarters; together all of it.
    assert row(found, "kernels", "first").busy[:3] == (1.0, 0.4, 0.0)
    assert row(found, "kernels", "second").busy[:3] == (0.0, 0.6, 0.0)


def test_five_kernels_have_a_row_and_the_others_one_together() -> None:
    found = session(trace(*(kernel(f"k{number}", 20 * number, 10 - number) for number in range(8))))
    names = {one.id: one.demangled for one in found.kernels}
    assert [one.kernel is not None and names[one.kernel] for one in strip(found).rows] == [
        "k0", "k1", "k2", "k3", "k4", False,
    ]  # fmt: skip
    total = sum(sum(one.busy) for one in strip(found).rows) * strip(found).bin_s
    assert math.isclose(total, device(found).kernel_s, rel_tol=1e-3)


def test_the_longest_pauses_say_when_and_why() -> None:
    launches = [kernel("k", 100 * place, 50 - place) for place in range(6)]
    waiting = HostWait(start_s=240e-6, end_s=299e-6)
    pauses = strip(session(replace(trace(*launches), host_waits=(waiting,)))).pauses
    assert [round(pause.start_s * 1e6) for pause in pauses] == [248, 347, 446]
    assert [round(pause.length_s * 1e6) for pause in pauses] == [52, 53, 54]
    assert [(pause.cause, pause.before) for pause in pauses] == [
        ("waited", "kernel"), ("unknown", "kernel"), ("unknown", "kernel"),
    ]  # fmt: skip


def test_a_hostile_name_is_text_and_a_long_one_is_cut() -> None:
    (figure,) = timeline_figures(some(HOSTILE + "x" * 900))
    assert figure.svg is not None
    svg = figure.svg()
    assert "<script" not in svg and "&lt;script&gt;" in svg
    assert "x" * 100 not in svg
    assert len(svg) < 15_000
    assert 'data-zoom="x"' in svg and "var(--gp-line-l1, " in svg


def test_a_strip_without_rows_is_not_drawn() -> None:
    found = some()
    assert found.timeline is not None
    (gpu,) = found.timeline.devices
    empty = replace(gpu, strip=replace(strip(found), rows=()))
    assert timeline_figures(replace(found, timeline=replace(found.timeline, devices=(empty,)))) == ()


def test_kernels_whose_cut_names_are_alike_have_their_numbers() -> None:
    alike = (f"split_embedding_backward_{way}_of_unweighted_rows" for way in ("cta", "warp"))
    read = session(trace(*(kernel(name, 20 * place, 10) for place, name in enumerate(alike))))
    (figure,) = timeline_figures(read)
    assert figure.svg is not None
    svg = figure.svg()
    assert all(f">#{one.id} split_" in svg for one in read.kernels)


def test_pauses_are_hatched_and_labelled_with_their_cause() -> None:
    (figure,) = timeline_figures(some())
    assert figure.svg is not None
    svg = figure.svg()
    assert svg.count("<pattern") == 1
    assert ">idle 265 µs, before a kernel</text>" in svg
    assert "idle 265 µs, before a kernel, after 4.00 µs" in figure.alt


def test_steps_begin_at_lines() -> None:
    launches = [kernel("k", 100 * place, 50) for place in range(4)]
    steps = tuple(step(100 * place, 100) for place in range(4))
    found = session(trace(*launches, steps=steps))
    assert [round(start_s * 1e6) for start_s in strip(found).steps_s] == [0, 100, 200, 300]
    (figure,) = timeline_figures(found)
    assert figure.svg is not None
    assert figure.svg().count('id="strip-0-steps"') == 1
