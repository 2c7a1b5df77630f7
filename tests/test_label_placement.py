"""Where labels go, on frames small enough to work out by hand."""

from __future__ import annotations

import math

from gpuprof.present.label_placement import Box, Occupied, place_along, place_around, place_beside

FLAT = ((10.0, 50.0), (90.0, 50.0))


def test_hiding_a_whole_point_costs_forty_and_half_of_it_twenty() -> None:
    occupied = Occupied((100, 100))
    occupied.add_mark(Box(20, 20, 30, 30))
    assert math.isclose(occupied.cost([Box(20, 20, 30, 30)]), 40)
    assert math.isclose(occupied.cost([Box(20, 20, 25, 30)]), 20)
    assert occupied.cost([Box(40, 40, 60, 60)]) == 0


def test_what_is_added_after_the_cost_was_asked_for_counts_beyond_its_own_place() -> None:
    occupied = Occupied((100, 100))
    occupied.add_mark(Box(20, 20, 30, 30))
    assert math.isclose(occupied.cost([Box(10, 10, 90, 90)]), 40)
    occupied.add_mark(Box(60, 25, 70, 35))
    assert math.isclose(occupied.cost([Box(10, 10, 90, 90)]), 80)
    assert math.isclose(occupied.cost([Box(10, 10, 65, 90)]), 60)
    assert math.isclose(occupied.cost([Box(65, 30, 90, 90)]), 10)
    assert occupied.cost([Box(75, 40, 90, 90)]) == 0


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


def test_label_goes_to_the_left_where_the_right_is_taken() -> None:
    occupied = Occupied((100, 100))
    occupied.add_text([Box(60, 30, 90, 70)])
    placed = place_around(occupied, (50, 50), 5, width=20, size=9)
    assert placed is not None
    assert placed.box == Box(20, 44, 42, 56)


def test_label_without_room_has_no_place() -> None:
    occupied = Occupied((100, 100))
    assert place_around(occupied, (50, 50), 5, width=120, size=9) is None
    assert place_beside(occupied, FLAT, width=120, size=9) is None
    assert place_along(occupied, FLAT, width=120, size=9, near_start=True, above=True) is None
    assert place_along(occupied, ((5, 5), (5, 5)), width=1, size=9, near_start=True, above=True) is None


def test_text_along_a_flat_line_keeps_to_its_side_and_end() -> None:
    low = place_along(Occupied((100, 100)), FLAT, width=20, size=8, near_start=True, above=True)
    high = place_along(Occupied((100, 100)), FLAT, width=20, size=8, near_start=False, above=False)
    assert low is not None
    assert high is not None
    assert (low.start, low.angle) == ((14, 53.5), 0)
    assert (high.start, high.angle) == ((66, 40.5), 0)


def test_text_along_a_line_leaves_the_side_that_is_taken() -> None:
    occupied = Occupied((100, 100))
    occupied.add_text([Box(0, 52, 100, 70)])
    placed = place_along(occupied, FLAT, width=20, size=8, near_start=True, above=True)
    assert placed is not None
    assert placed.start == (14, 40.5)


def test_slanted_text_is_covered_by_boxes_along_it() -> None:
    placed = place_along(Occupied((100, 100)), ((5, 5), (95, 95)), width=30, size=8, near_start=True, above=True)
    assert placed is not None
    assert math.isclose(placed.angle, math.pi / 4)
    assert len(placed.boxes) == math.ceil(30 / 4) + 1
