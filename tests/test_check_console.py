"""A review in the terminal: what is said first, what one kernel has in depth, at every width and with any name."""

from __future__ import annotations

import io
import unicodedata

from rich.console import Console

from gpuprof.present.check_console import print_review
from gpuprof.review.contract import Review
from tests import reviews as made
from tests.table import each_row
from tests.test_check_formats import many, with_numbers
from tests.test_compare_formats import HOSTILE_TEXTS, ODD_NUMBERS

WIDTHS = (60, 80, 120, 200)


def shown(
    review: Review, *, width: int = 100, top: int | None = None, verbose: bool = False, chosen: bool = False
) -> str:
    out = io.StringIO()
    print_review(Console(file=out, width=width, highlight=False), review, top=top, verbose=verbose, chosen=chosen)
    return out.getvalue()


def test_a_kernel_is_what_it_takes_and_what_to_change_by_line() -> None:
    assert shown(made.review(made.kernel(0, made.finding()))).split("\n") == [
        "transpose.cu for sm_90: 1 kernel, 1 finding",
        "",
        "#0 transpose_naive  sm_90, block 256",
        "   72 registers, 4.12 KiB shared, 7 spills (2 in loops); occupancy 38 % by registers: at",
        "   64 registers one more block fits (50 %)",
        "   transpose.cu:12: Uncoalesced global access: 32 sectors per request, 4 are needed",
        "     → Let consecutive threads read consecutive words",
        "",
    ]


def test_without_line_information_a_finding_is_at_an_offset() -> None:
    text = shown(made.review(made.kernel(0, made.finding("rule", made.place(None)))))
    assert "   at 0x120: Uncoalesced global access" in text


def test_a_guess_is_called_one() -> None:
    assert "4 are needed (guess)" in shown(made.review(made.kernel(0, made.finding(certainty="guess"))), width=120)


def test_what_is_not_known_is_said_and_is_no_zero() -> None:
    kernel = made.kernel(block=None, occupancy=None, resources=made.resources(registers=None, spills=None))
    text = shown(made.review(kernel))
    assert "registers not known" in text and "spill" not in text
    assert "occupancy needs --block" in text
    known = shown(made.review(made.kernel(occupancy=None)))
    assert "occupancy not known" in known


def test_a_kernel_for_several_architectures_is_one_block_with_what_differs() -> None:
    lean = made.resources(registers=40, spills=None, static_shared_bytes=0, stack_bytes=0)
    full = made.occupancy(fraction=1.0, limiters=(), steps=())
    other = made.finding("double", headline="FP64 in an FP32 kernel")
    text = shown(
        made.review(
            made.kernel(0, made.finding(), other),
            made.kernel(1, made.finding(), target="sm_80", resources=lean, occupancy=full),
        )
    )
    assert text.count("transpose_naive") == 1 and text.count("Uncoalesced") == 1
    assert "   sm_90: 72 registers" in text and "   sm_80: 40 registers; occupancy 100 %" in text
    assert "FP64 in an FP32 kernel (sm_90)" in text


def test_architectures_that_take_the_same_share_a_line() -> None:
    text = shown(made.review(*[made.kernel(n, target=target) for n, target in enumerate(("sm_80", "sm_86", "sm_90"))]))
    assert "   sm_80, sm_86, sm_90: 72 registers" in text


def test_kernels_of_one_name_in_one_file_stay_apart() -> None:
    text = shown(made.review(made.kernel(0), made.kernel(1)))
    assert "2 kernels" in text and "#0 transpose_naive" in text and "#1 transpose_naive" in text


def test_launches_of_one_configuration_are_told_once() -> None:
    launches = [made.kernel(n, made.finding(), launch=n, grid=(64, 1, 1)) for n in range(12)]
    text = shown(made.review(*launches))
    assert "1 kernel in 12 launches, 1 finding" in text
    assert "#0 transpose_naive  sm_90, grid 64, block 256, 12 launches" in text


def test_launches_of_several_configurations_are_told_by_what_differs() -> None:
    launches = [
        made.kernel(n, launch=n, block=(32 * (1 + n % 2), 1, 1), occupancy=made.occupancy(fraction=0.25 * (1 + n % 2)))
        for n in range(4)
    ]
    text = shown(made.review(*launches))
    assert "   block 32: 72 registers" in text and "   block 64: 72 registers" in text
    assert "#0 transpose_naive  sm_90, 4 launches" in text


def test_kernels_of_several_files_are_told_apart_by_file() -> None:
    text = shown(made.review(made.kernel(0, origin="a/old.cu"), made.kernel(1, origin="b/new.cu")))
    assert "#0 transpose_naive  sm_90, block 256, old.cu" in text
    assert "#1 transpose_naive  sm_90, block 256, new.cu" in text


def test_shared_memory_of_the_launch_is_told_apart_from_that_of_the_code() -> None:
    def told(static: int, dynamic: int | None) -> str:
        sizes = made.resources(static_shared_bytes=static, dynamic_shared_bytes=dynamic)
        return shown(made.review(made.kernel(resources=sizes))).split("\n")[3].split(", ")[1]

    assert told(1008, None) == "1008 B shared"
    assert told(0, 49152) == "48 KiB dynamic shared"
    assert told(1024, 1024) == "2 KiB shared (1 KiB of it dynamic)"
    assert told(0, None).startswith("7 spills")


def test_a_screen_has_30_lines_and_counts_the_kernels_that_it_leaves_out() -> None:
    for number in (1, 5, 12, 500):
        text = shown(many(number), width=80)
        assert text.count("\n") < 30
        told = sum(line.startswith("#") for line in text.split("\n"))
        assert told >= min(number, 3)
        assert (told == number) == ("more kernel" not in text)
    assert f"… and {500 - told} more kernels, {500 - told} with findings: --top 0 shows all" in text


def test_top_says_how_many_kernels_are_shown() -> None:
    for top, number in ((2, 2), (0, 40)):
        assert sum(line.startswith("#") for line in shown(many(40), top=top).split("\n")) == number


def test_kernels_with_findings_in_the_deepest_loops_come_first() -> None:
    review = made.review(
        made.kernel(0, label="quiet"),
        made.kernel(1, made.finding(loop_depth=0), label="shallow"),
        made.kernel(2, made.finding(loop_depth=3), label="deep"),
    )
    heads = [line.split()[1] for line in shown(review).split("\n") if line.startswith("#")]
    assert heads == ["deep", "shallow", "quiet"]


def test_in_depth_a_kernel_has_its_loops_its_accesses_and_what_is_not_known() -> None:
    text = shown(made.review(made.kernel(0, made.finding())), chosen=True)
    for line in (
        "transpose_naive  sm_90, block 256",
        "   void transpose_naive<float>(float *, const float *, int)",
        "   spills      4 loads of 16 B per thread, 3 stores of 12 B; 2 in loops",
        "   arguments   0 out (8 B), 1 in (8 B), 2 n = 4096",
        "   loops       transpose.cu:10: 64 trips, 16 instructions",
        "                 transpose.cu:11: trips not constant, 16 instructions",
        "   line             access        width      a request  needs  lane to lane  loops",
        "   transpose.cu:12  global load     4 B     32 sectors      4        4096 B      2",
        "   transpose.cu:12  shared store    4 B  32 wavefronts      1        4096 B      2",
        "   transpose.cu:14  global store    4 B  not known (1)      –             –      2",
        f"   (1) {made.UNKNOWN}",
        "   evidence    sectors of a request: 32 sectors/request, threshold 4 sectors/request",
        "   where       transpose.cu:12 at 0x120: LDG.E R2, desc[UR4][R2.64]; also transpose.cu:14",
        "   sure        from code, in 2 nested loops; rule uncoalesced-global",
        "Tools   NVRTC 13.1, nvdisasm 13.1.80",
    ):
        assert line in text.split("\n")
    assert "#0" not in text  # a number is one of all kernels, and these were chosen


def test_accesses_of_a_line_that_are_alike_are_one_row() -> None:
    unrolled = tuple(made.access(offset=16 * number) for number in range(8))
    text = shown(made.review(made.kernel(accesses=unrolled)), verbose=True)
    assert "global load ×8" in text


def test_a_reason_for_not_knowing_is_told_once_for_all_rows() -> None:
    unknown = {"sectors_per_request": None, "lane_stride_bytes": None}
    told = [made.access(line=n, unknown=("a", "b")[n % 2], **unknown) for n in range(1, 9)]
    text = shown(made.review(made.kernel(accesses=tuple(told))), verbose=True)
    assert text.count("not known (1)") == text.count("not known (2)") == 4
    assert text.count("   (1) b\n   (2) a\n") == 1


def test_of_many_accesses_the_costly_ones_are_shown() -> None:
    cheap = [made.access(offset=n, line=100 + n, sectors_per_request=4.0) for n in range(200)]
    text = shown(made.review(made.kernel(accesses=(*cheap, made.access(offset=9999, line=7)))), verbose=True)
    assert "transpose.cu:7 " in text
    assert "… and 161 more lines that cost no more than they need: --format json has all" in text


def test_a_second_architecture_with_the_same_accesses_does_not_repeat_them() -> None:
    text = shown(made.review(made.kernel(0), made.kernel(1, target="sm_80")), verbose=True)
    assert text.count("line             access") == 1
    assert "loops       and accesses as on sm_90" in text


def test_findings_on_files_and_notes_are_told_without_kernels() -> None:
    missing = made.finding("no-machine-code", made.place(None, offset=None, sass=""), headline="No code for sm_90")
    text = shown(made.review(files=("a.so",), findings=(missing,), notes=("One member was left out.",)))
    assert "a.so: 0 kernels, no findings" in text
    assert "   No code for sm_90" in text and "no kernel with machine code" in text
    assert "One member was left out." in text


@each_row("width", WIDTHS)
@each_row("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_no_text_steers_a_terminal_or_leaves_the_columns(text: str, width: int) -> None:
    for verbose in (False, True):
        out = shown(made.everything(text, text), width=width, verbose=verbose)
        for line in out.split("\n"):
            assert not [
                char for char in line if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
            ]
            assert len(line) <= width


@each_row("number", ODD_NUMBERS)
def test_odd_numbers_are_never_shown_as_numbers(number: float) -> None:
    text = shown(with_numbers(made.everything(), number), verbose=True)
    assert " nan" not in text and " inf" not in text


def test_without_unicode_everything_is_ascii() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", errors="strict")
    print_review(Console(file=out, width=100), made.review(made.kernel(0, made.finding())), verbose=True)
    out.flush()
    assert b"-> Let consecutive" in raw.getvalue() or b"? Let consecutive" in raw.getvalue()


def test_occupancy_is_at_most_so_high_where_the_launch_adds_shared_memory_of_a_size_that_is_not_known() -> None:
    asks = "8 blocks (64 warps) per SM, at most: it uses dynamic shared memory of a size that is not known (…)"
    may = "8 blocks (64 warps) per SM, at most: the launch may add dynamic shared memory (…)"
    for sentence, said in ((asks, "occupancy at most 100 %"), (may, "occupancy 100 %")):
        occupancy = made.occupancy(fraction=1.0, limiters=(), steps=(), sentence=sentence)
        assert said in shown(made.review(made.kernel(occupancy=occupancy)))
