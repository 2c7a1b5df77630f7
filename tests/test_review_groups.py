"""One thing in a review: kernels over architectures and launches, findings, accesses; and its values as text."""

from __future__ import annotations

from msgspec.structs import replace

from gpuprof.views.review_groups import costliest, grouped_kernels, same_accesses, same_memory, shared_findings
from gpuprof.words.review_values import bytes_text, code_place, instruction_text, range_text, shared_text
from tests import reviews as made
from tests.table import each_row


def test_variants_are_named_by_what_differs() -> None:
    targets = [made.kernel(index, target=target) for index, target in enumerate(("sm_80", "sm_90"))]
    (group,) = grouped_kernels(made.review(*targets))
    assert [variant.name for variant in group.variants] == ["sm_80", "sm_90"]
    launches = [made.kernel(index, launch=index, grid=(64 * (1 + index // 2), 1, 1)) for index in range(3)]
    (group,) = grouped_kernels(made.review(*launches))
    assert [(variant.name, variant.launches) for variant in group.variants] == [("grid 64", 2), ("grid 128", 1)]
    assert group.launches == 3


def test_two_kernels_of_one_name_in_a_file_stay_two() -> None:
    kernels = [made.kernel(index, target=target) for index, target in enumerate(("sm_80", "sm_80", "sm_90", "sm_90"))]
    groups = grouped_kernels(made.review(*kernels))
    assert [[variant.kernel.id for variant in group.variants] for group in groups] == [[0, 2], [1, 3]]


def test_the_gravest_kernels_come_first_then_those_that_were_not_reviewed() -> None:
    low = made.finding("spill", severity="low")
    kernels = [
        made.kernel(0, label="plain"),
        made.kernel(1, label="unread", unreviewed="no code"),
        made.kernel(2, low, label="low"),
        made.kernel(3, made.finding("a", made.place(loops=1)), label="shallow"),
        made.kernel(4, made.finding("a", made.place(loops=2)), label="deep"),
    ]
    groups = grouped_kernels(made.review(*kernels))
    assert [group.name for group in groups] == ["deep", "shallow", "low", "unread", "plain"]


def test_a_finding_of_a_line_is_one_finding_of_all_kernels_that_have_it() -> None:
    other = made.finding("uncoalesced-global", made.place(99))
    kernels = [made.kernel(0, made.finding(), label="a"), made.kernel(1, made.finding(), other, label="b")]
    review = made.review(*kernels, findings=(made.finding("no-line-info", severity="info"),))
    shared = shared_findings(review, grouped_kernels(review))
    assert [[group.name for group, _ in item.owners] for item in shared] == [["a", "b"], ["b"], []]
    lineless = [made.kernel(index, made.finding("r", made.place(None)), label=f"k{index}") for index in range(2)]
    review = made.review(*lineless)
    (item,) = shared_findings(review, grouped_kernels(review))
    assert len(item.owners) == 2 and item.place is None


def test_findings_of_a_line_that_read_alike_are_one() -> None:
    review = made.review(made.kernel(0, made.finding(), made.finding()), made.kernel(1, made.finding(), target="sm_80"))
    (group,) = grouped_kernels(review)
    assert [found.only for found in group.findings] == [()]
    (item,) = shared_findings(review, [group])
    assert len(item.owners) == 1


def test_a_finding_of_some_variants_names_them() -> None:
    kernels = [made.kernel(0, made.finding(), target="sm_80"), made.kernel(1, target="sm_90")]
    (group,) = grouped_kernels(made.review(*kernels))
    assert [found.only for found in group.findings] == [("sm_80",)]


def test_costly_accesses_are_kept_then_those_of_unknown_cost_in_the_order_of_the_code() -> None:
    cheap = [made.access(offset=16 * index, line=index + 1, sectors_per_request=4.0) for index in range(3)]
    unknown = made.access(offset=64, line=8, sectors_per_request=None)
    groups = same_accesses((made.access(offset=80), made.access(offset=96), unknown, *cheap))
    assert [len(group) for group in groups] == [1, 1, 1, 1, 2]
    assert [group[0].offset for group in costliest(groups, 2)] == [64, 80]


def test_memory_that_differs_in_offsets_alone_is_the_same() -> None:
    first = made.kernel(0, target="sm_80")
    moved = tuple(replace(access, offset=access.offset + 16) for access in first.accesses)
    kernels = [first, made.kernel(1, target="sm_90", accesses=moved), made.kernel(2, target="sm_86", loops=())]
    (group,) = grouped_kernels(made.review(*kernels))
    assert [[item.name for item in variants] for variants in same_memory(group.variants)] == [
        ["sm_80", "sm_90"], ["sm_86"],
    ]  # fmt: skip


@each_row(
    ("text", "expected"),
    [
        (bytes_text(1008), "1008 B"), (bytes_text(4224), "4.12 KiB"), (bytes_text(None), "not known"),
        (shared_text(4096, None), "4 KiB"), (shared_text(0, 24576), "24 KiB dynamic"),
        (shared_text(4096, 24576), "28 KiB (24 KiB dynamic)"), (shared_text(None, None), "not known"),
        (range_text([84, 80, None]), "80–84"), (range_text([7, 7]), "7"), (range_text([None]), "not known"),
        (code_place("src/a.cu", 12, 0x120), "a.cu:12"), (code_place(None, None, 0x120), "at 0x120"),
        (code_place(None, None, None), ""),
        (instruction_text(made.place(sass="LDS R7"), 4), "transpose.cu:12 at 0x120: LDS R7 ×4"),
    ],
)  # fmt: skip
def test_values_are_written_with_their_units(text: str, expected: str) -> None:
    assert text == expected
