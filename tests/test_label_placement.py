"""Where labels go, on frames small enough to work out by hand."""

from __future__ import annotations

import math

import numpy

from gpuprof.present.label_placement import Box, Occupied, place_along, place_around, place_beside

FLAT = ((10.0, 50.0), (90.0, 50.0))


def test_text_outside_the_frame_or_over_another_costs_infinitely() -> None:
    occupied = Occupied((100, 100))
    occupied.add_text([Box(20, 20, 40, 30)])
    outside, over, free = (2, 50, 20, 60), (30, 25, 50, 35), (50, 50, 60, 60)
    assert occupied.costs(numpy.array([outside, over, free])).tolist() == [math.inf, math.inf, 0.0]


def test_label_hides_as_little_as_it_can() -> None:
    occupied = Occupied((100, 100))
    occupied.add_line(((0, 50), (99, 50)))
    occupied.add_mark(Box(40, 40, 60, 60))
    assert occupied.hidden(numpy.array([(0, 49, 31, 52), (40, 40, 50, 60)])).tolist() == [16.5, 20 + 3 * 1.5]
    placed = place_around(occupied, (50, 50), 5, width=20, size=9)
    assert placed is not None and placed.box.bottom > 60


def test_leader_does_not_cross_a_text() -> None:
    occupied = Occupied((100, 100))
    occupied.add_text([Box(60, 0, 64, 100), Box(0, 58, 100, 62), Box(0, 38, 100, 42)])
    placed = place_around(occupied, (50, 50), 5, width=20, size=9)
    assert placed is not None and placed.box.right < 60


def test_label_of_a_lone_point_is_at_its_right() -> None:
    placed = place_around(Occupied((100, 100)), (50, 50), 5, width=20, size=9)
    assert placed is not None
    assert placed.box == Box(58, 44, 80, 56)
    assert (placed.root, placed.tip, placed.cost) == ((55, 50), (58, 50), 0)


def test_label_without_room_has_no_place() -> None:
    occupied = Occupied((100, 100))
    assert place_around(occupied, (50, 50), 5, width=120, size=9) is None
    assert place_beside(occupied, FLAT, width=120, size=9) is None
    assert place_along(occupied, FLAT, width=120, size=9, near_start=True, above=True) is None
    assert place_along(occupied, ((5, 5), (5, 5)), width=1, size=9, near_start=True, above=True) is None
