"""Where labels go, on frames small enough to work out by hand."""

from __future__ import annotations

import math

from gpuprof.present.label_placement import Box, Occupied, place_along, place_around, place_beside

FLAT = ((10.0, 50.0), (90.0, 50.0))


def test_text_outside_the_frame_or_over_another_costs_infinitely() -> None:
    occupied = Occupied((100, 100))
    occupied.add_text([Box(20, 20, 40, 30)])
    assert occupied.cost([Box(2, 50, 20, 60)]) == math.inf
    assert occupied.cost([Box(30, 25, 50, 35)]) == math.inf
    assert occupied.leader_cost((10, 25), (60, 25)) == math.inf


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
