"""`gpuprof show --sass`: a kernel's machine code with its counters, hand-made and of recorded reports."""

from __future__ import annotations

import gzip
import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from msgspec import structs
from rich.console import Console

import gpuprof as package
from gpuprof.annotated.counts import EXECUTED, SAMPLES, stall_metric
from gpuprof.annotated.listing import ListedInstruction, Listing, listing_of
from gpuprof.errors import InputError
from gpuprof.model.analyse import analyse
from gpuprof.model.recorded import CodeListing, Missing, ProfiledInstruction
from gpuprof.model.session import KernelProfile, StallShare
from gpuprof.views.document import Code, Document
from gpuprof.views.exports.csv_files import listing_lines
from gpuprof.views.listing import listing_document
from gpuprof.views.markdown import markdown_lines
from gpuprof.views.terminal import print_document
from tests import builders
from tests.cli import gpuprof
from tests.hand_made import HOSTILE
from tests.kernels import Program, made, session
from tests.table import each_row

RECORDINGS = Path(__file__).parent.parent / "recordings"
FILE = "src/k.cu"
TEXT = "\n".join(f"line {number};" for number in range(1, 21))
WAIT, LONG = stall_metric("wait", "sampled"), stall_metric("long_scoreboard", "sampled")
SELECTED = stall_metric("selected", "sampled")
THREADS = "thread_inst_executed_true"
SECTORS, WAVEFRONTS = "memory_l2_theoretical_sectors_global", "memory_l1_wavefronts_shared"
LOAD = {SECTORS: 400.0, f"{SECTORS}_ideal": 100.0}


def at(
    pc: int, line: int | None, sass: str = "FFMA R1, R2, R3, R4", *, counts: Mapping[str, float] | None = None
) -> ProfiledInstruction:
    return ProfiledInstruction(pc, sass, FILE if line is not None else None, line=line, counts=counts or {})


class Whole(Program, frozen=True):
    """A program whose kernel begins at an address, and that calls functions."""

    first = 0x1000
    functions = MappingProxyType({0x1000: "_Z1k"})

    def listing(self, counts: tuple[str, ...]) -> CodeListing:
        return CodeListing(self.first, self.functions, self.instructions(counts))


def listed(
    *code: ProfiledInstruction, program: type[Whole] = Whole, label: str = "kernel", gaps: tuple[Missing, ...] = ()
) -> tuple[KernelProfile, Listing]:
    names = {name for each in code for name in each.counts}
    per_pc: dict[str, dict[str | int, float]] = {
        name: {each.pc: each.counts[name] for each in code if name in each.counts} for name in names
    }
    details = program(code, {FILE: TEXT}, gaps=gaps)
    launch = made({name: sum(values.values()) for name, values in per_pc.items()}, histograms=per_pc, details=details)
    analysis = analyse([builders.report(replace(launch, name=label).launch())], builders.hardware_of, "9.9")
    (kernel,) = session(replace(launch, name=label)).kernels
    return kernel, listing_of(analysis.session, kernel, analysis.recorded[0])


def document(kernel: KernelProfile, listing: Listing, *, whole: bool = False) -> Document:
    return listing_document(None, kernel, listing, whole)


def code_of(document: Document) -> Code:
    (code,) = (block for block in document.blocks if isinstance(block, Code))
    return code


def screen(kernel: KernelProfile, listing: Listing, width: int = 80) -> str:
    out = io.StringIO()
    print_document(Console(file=out, width=width, highlight=False), document(kernel, listing))
    return out.getvalue()


def at_offset(listing: Listing, offset: int) -> ListedInstruction:
    return next(each for each in listing.instructions if each.offset == offset)


def test_counts_are_those_of_the_instruction_and_blank_where_they_were_not_collected() -> None:
    _, listing = listed(
        at(0x1000, 3, "LDG.E R2, [R4.64]", counts={SAMPLES: 10, WAIT: 2, SELECTED: 3, LONG: 5, EXECUTED: 8, **LOAD}),
        at(0x1010, 3, "@!P0 BRA 0x1000", counts={SAMPLES: 30, WAIT: 30, EXECUTED: 4}),
        at(0x1020, None, "NOP"),
    )
    load, jump, nop = listing.instructions
    assert (load.offset, load.samples, load.share, load.executed) == (0, 10, 0.25, 8)
    assert load.stall == StallShare("long_scoreboard", 0.5)
    assert (load.sectors, load.sectors_ideal, load.wavefronts, load.threads) == (400, 100, None, None)
    assert (jump.sass, jump.sectors) == ("@!P0 BRA 0x0", None)
    assert (nop.samples, nop.executed, nop.stall, nop.file) == (0, 0, None, None)
    assert (listing.samples, listing.executed) == (40, 12)
    assert listing.source_lines == {FILE: {3: "line 3;"}}
    assert listing.missing == ()


class Calling(Whole, frozen=True):
    """One that calls a function which lies before it, and one of which no name is known."""

    functions = MappingProxyType({0x1000: "_Z1k", 0x200: "_Z6helperf", 0x3000: ""})


def test_the_kernel_comes_before_the_functions_that_it_calls_each_with_offsets_of_its_own() -> None:
    counted = {SAMPLES: 1.0}
    kernel, listing = listed(
        at(0x210, None, "RET", counts=counted),
        at(0x1000, 1, counts=counted),
        at(0x1010, 2, counts=counted),
        at(0x3000, 2, counts=counted),
        program=Calling,
    )
    assert [(each.function, each.offset) for each in listing.instructions] == [(0, 0), (0, 16), (1, 16), (2, 0)]
    heads = [line.number for line in code_of(document(kernel, listing, whole=True)).lines if line.across]
    assert heads == [
        "_Z1k", "k.cu:1", "k.cu:2", "_Z6helperf", "no source line", "function at 0x3000", "k.cu:2",
    ]  # fmt: skip


@each_row("width", [60, 80, 200])
def test_hostile_names_and_long_lines_stay_on_the_sheet(width: int) -> None:
    long = f"FFMA R1, {'R2, ' * 200}{HOSTILE}"
    kernel, listing = listed(
        at(0x1000, 3, long, counts={SAMPLES: 5.0, LONG: 5.0, EXECUTED: 1e9, THREADS: 3.2e10, **LOAD}), label=HOSTILE
    )
    lines = {3: "x" * 5000 + HOSTILE}
    code = tuple(structs.replace(each, file=f"/a/{HOSTILE}" * 9) for each in listing.instructions)
    listing = structs.replace(listing, instructions=code, source_lines={code[0].file: lines})
    shown = screen(kernel, listing, width)
    assert max(map(len, shown.splitlines())) <= width
    others = [
        *markdown_lines(document(kernel, listing)),
        *listing_lines(session(made()), kernel, listing, True),
    ]
    for text in (shown, *others):
        assert "\x1b" not in text and "\u202e" not in text


@pytest.fixture
def transpose(tmp_path: Path) -> Path:
    path = tmp_path / "h100.ncu-rep"
    path.write_bytes(gzip.decompress((RECORDINGS / "h100-transpose.ncu-rep.gz").read_bytes()))
    return path


def shown(*options: str | Path) -> str:
    done = gpuprof("show", "--sass", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@each_row(
    ("options", "part"),
    [
        ("--sass #3 --kernel saxpy", "--kernel"), ("--sass nothing", "'nothing'"),
    ],
)  # fmt: skip
def test_what_means_nothing_or_has_no_code_is_refused(transpose: Path, options: str, part: str, tmp_path: Path) -> None:
    done = gpuprof("show", transpose, *options.split())
    assert done.returncode == 2 and part in done.stderr
    with pytest.raises(InputError, match="99"):
        package.listing(transpose, kernel=99)
    kept = tmp_path / "session.json"
    package.load(transpose).save(kept)
    assert transpose.name in gpuprof("show", "--sass", "#3", kept).stderr


def test_the_listing_of_a_recording_has_the_values_that_are_in_it(transpose: Path) -> None:
    """524,288 warps execute each of the 23 instructions up to EXIT; the store touches 32 sectors a warp, not 4."""
    listing = package.listing(transpose, kernel=3)
    assert (len(listing.instructions), listing.samples, listing.executed) == (32, 36635, 23 * 524288)
    store, jump = at_offset(listing, 0x150), at_offset(listing, 0x170)
    assert (store.executed, store.threads, store.line) == (524288, 32, 58)
    assert "3.uncoalesced-global" in store.findings
    assert (jump.executed, jump.stall and jump.stall.reason) == (0, "drain")
    assert sum(each.samples or 0 for each in listing.instructions) == listing.samples


def test_cold_stretches_are_folded_and_lines_with_findings_are_not(transpose: Path) -> None:
    listing = package.listing(transpose, kernel=3)
    kernel = next(each for each in package.load(transpose).kernels if each.id == 3)
    code = code_of(document(kernel, listing))
    shown = [line for line in code.lines if not line.across]
    folded = [line.text for line in code.lines if line.across and (line.text or "").startswith("…")]
    assert folded == ["… 8 instructions, 1.2 % of samples", "… 6 instructions, 0 % of samples"]
    assert len(shown) == len(listing.instructions) - 14
    assert len([line for line in code_of(document(kernel, listing, whole=True)).lines if not line.across]) == 32
    store = next(index for index, line in enumerate(code.lines) if line.number == "0150")
    assert (code.lines[store + 1].text or "").startswith("▲ 3.uncoalesced-global (high, ")


@each_row(("width", "hidden"), [(80, "threads"), (60, "executed")])
def test_the_last_columns_go_first_if_there_is_no_room(width: int, hidden: str) -> None:
    counted = {SAMPLES: 5.0, LONG: 5.0, EXECUTED: 1e9, THREADS: 3.2e10, **LOAD}
    text = screen(*listed(at(0x1000, 3, "FFMA R1, R2, R3, R4", counts=counted)), width)
    assert "main stall" in text
    assert hidden not in text.partition("offset")[2].splitlines()[0]
    assert max(map(len, text.splitlines())) <= width
