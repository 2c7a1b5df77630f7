"""The terminal view of findings: order, words, width, bars and colour, on hand-made sessions and real reports."""

from __future__ import annotations

import io
import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, structs
from msgspec.structs import replace
from rich.console import Console

from gpuprof.diagnose.explain import explain
from gpuprof.model.headline import by_time
from gpuprof.model.session import KernelProfile, Remaining, Session
from gpuprof.notebook import LoadedSession
from gpuprof.present.console import print_session, print_tree
from gpuprof.present.console_parts import Sheet
from gpuprof.present.text import tolerate
from tests import builders, ncu_bytes
from tests.cli import gpuprof as run
from tests.formats import written
from tests.hand_made import HOSTILE, finding, kernel, session
from tests.readings import session_of
from tests.table import each_row


class Ascii(io.StringIO):
    """A stream that says of itself that it has no Unicode."""

    encoding = "ascii"


def shown(
    what: Session, kernels: Sequence[KernelProfile] | None = None, width: int = 80, *,
    depth: bool = False, terminal: bool = False, stream: io.StringIO | None = None,
) -> str:  # fmt: skip
    out = stream if stream is not None else io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system="standard" if terminal else None)
    chosen = list(what.kernels if kernels is None else kernels)
    print_session(console, what, chosen, depth="all" if depth else "longest")
    return out.getvalue()


def lines_of(text: str) -> list[str]:
    return text.splitlines()


def flat(text: str) -> str:
    return " ".join(text.split())


TWO = session(
    kernel(
        0, finding(gain=0.6), finding("low-occupancy", 0.2, severity="low", confidence="guess"),
        finding("tail-effect", 0.0, severity="info"),
    ),
    kernel(1, finding("barrier-wait", 0.3, severity="medium", confidence="inferred"), label="reduce_sum"),
)  # fmt: skip


def test_what_is_left_after_those_before_is_told_where_it_is_less() -> None:
    # 60 % go first, of which 40 % would remain for L1: of the other's 50 % nothing is left beyond L2's 40 %.
    first = finding(gain=0.6, remains=(Remaining("l2", 0.4), Remaining("l1", 0.3)))
    second = finding("tail-effect", 0.5, remains=(Remaining("l2", 0.5), Remaining("l1", 0.3)), action="Even it out")
    read = session(kernel(0, first, second))
    assert [item.gain_after for item in read.opportunities] == [pytest.approx(0.3), 0]
    assert re.search(r"≤ 25 % headline of tail-effect nothing .* → Even", flat(shown(read)))


def told(command: str) -> Session:
    what = session(kernel(0, finding()))
    assert what.verdict is not None
    return replace(what, verdict=replace(what.verdict, unknown="UNKNOWN.", command=command))


def test_the_command_that_collects_the_rest_can_be_copied() -> None:
    arguments = " ".join(f"--option{number}=value" for number in range(12))
    command = f"ncu --set full ./app {arguments} 'two  words' a\\ b \"it's\" {'x' * 150}"
    text = shown(told(command))
    block = text[text.index("   ncu --set full") :].split("\n\n")[0]
    assert shlex.split(block.replace("\\\n", "")) == shlex.split(command)
    assert all(line.endswith(" \\") for line in lines_of(block)[:-1])
    assert max(map(len, lines_of(block)[:-1])) <= 80


@each_row("command", ["app 'half a quote " + "x " * 60, 'app "x', "app \\", HOSTILE, "a\nb"])
def test_a_command_that_no_shell_takes_apart_stays_on_one_line(command: str) -> None:
    lines = lines_of(shown(told(command)))
    (place,) = (index for index, line in enumerate(lines) if line.startswith("UNKNOWN. "))
    assert lines[place + 1].startswith("   ") and lines[place + 2] == ""


@each_row("width", [60, 80, 100, 160])
def test_verdict_and_repairs_fit_every_width(width: int) -> None:
    long = "x" * 400
    held = finding(headline=long, action=long, gain_kind="fixed-work", held=long)
    what = session(*(kernel(number, held, label=f"{number}{long}") for number in range(3)))
    lines = lines_of(shown(what, width=width))
    assert max(map(len, lines)) <= width and "…" in lines[0] + lines[1]


@each_row(("width", "stall", "rule"), [(80, False, False), (100, True, False), (120, True, True)])
def test_wide_terminals_have_the_main_stall_and_the_first_finding(width: int, stall: bool, rule: bool) -> None:
    table = shown(TWO, width=width).split("#  kernel")[1].split("\n\n#0")[0]
    assert ("Long Scoreboard" in table) is stall
    assert ("uncoalesced-global" in table) is rule


def test_colour_is_for_terminals() -> None:
    assert "\x1b[" not in shown(TWO) and not re.search(r" $", shown(TWO), re.MULTILINE)
    coloured = shown(TWO, terminal=True)
    assert "\x1b[1;31m" in coloured
    assert flat(re.sub(r"\x1b\[[0-9;]*m", "", coloured)) == flat(shown(TWO))


def test_without_unicode_bars_and_lines_are_ascii_and_still_fit() -> None:
    tolerate(io.TextIOWrapper(io.BytesIO(), "ascii"))
    text = shown(TWO, depth=True, stream=Ascii())
    drawn = Ascii()
    print_tree(Console(file=drawn, width=60, color_system=None), TWO, explain(TWO.kernels[0]))
    assert "##" in text and "<= 30 %" in text and "|- " in drawn.getvalue() and "`- " in drawn.getvalue()
    assert max(map(len, lines_of(text))) <= 80 and max(map(len, lines_of(drawn.getvalue()))) <= 60
    assert not set("█├└│≤") & set(text + drawn.getvalue())


def test_bars_are_as_long_as_their_fraction() -> None:
    drawn = [Sheet(80).bar(value, 4) for value in (0, 0.001, 0.5, 0.53, 1, 2)]
    assert drawn == ["    ", "▏   ", "██  ", "██▏ ", "████", "████"]
    assert [Sheet(80, "ascii").bar(value, 4) for value in (0, 0.001, 0.5, 1)] == ["    ", "#   ", "##  ", "####"]


def test_a_number_stays_with_its_unit() -> None:
    for width in range(20, 60):
        text = "\n".join(Sheet(width).wrapped("it reaches 2.90 TB/s, 61 % of 4.80 TB/s rated, at most 26.1 µs of it"))
        assert not re.search(r"\d\n(TB/s|%|µs)", text)


def test_hostile_findings_do_no_harm_in_the_terminal() -> None:
    place = finding().location
    assert place is not None
    bad = finding(
        headline=HOSTILE, why=HOSTILE, action=HOSTILE, advice=HOSTILE, held=HOSTILE, gain_kind="fixed-work",
        location=replace(place, file=HOSTILE, sass=HOSTILE),
        evidence=(replace(finding().evidence[0], metric=HOSTILE, meaning=HOSTILE, unit=HOSTILE),),
    )  # fmt: skip
    evil = session(kernel(0, bad, label=HOSTILE, demangled=HOSTILE))
    drawn = io.StringIO()
    print_tree(Console(file=drawn, width=80), evil, explain(evil.kernels[0]))
    for text in (shown(evil, depth=True, width=120), drawn.getvalue()):
        assert "\x1b" not in text and "\u202e" not in text
        assert "[red]" in text and "\\x1b[31m" in text


@each_row("number", [0.0, 1e-30, 1.0, 1e30])
def test_numbers_that_no_gpu_has_are_shown(number: float) -> None:
    odd = with_every_float(kernel(0, finding(), finding("tail-effect", severity="info")), number)
    assert isinstance(odd, KernelProfile)
    made = session(odd, with_every_float(kernel(1, finding(gain=None)), number))
    drawn = io.StringIO()
    print_tree(Console(file=drawn, width=80), made, explain(odd))
    assert shown(made, depth=True) and drawn.getvalue()
    assert all(text for _, text in written(made))
    assert "<table" in LoadedSession.of(made)._repr_html_()


def with_every_float(value: Any, number: float) -> Any:
    """Replace every float in a value of the session."""
    if isinstance(value, float):
        return number
    if isinstance(value, tuple):
        return tuple(with_every_float(item, number) for item in value)
    if isinstance(value, Struct):
        fields = structs.asdict(value)
        return replace(value, **{name: with_every_float(item, number) for name, item in fields.items()})
    return value


# The command


def test_a_pattern_that_matches_nothing_or_is_none_is_a_wrong_command_line(tmp_path: Path) -> None:
    path = launches_of_two_kernels(tmp_path)
    wrong = run("show", "--explain", "(", path)
    assert wrong.returncode == 2 and wrong.stderr.startswith("error: --explain '('")
    assert run("show", "--explain", "zz", path).returncode == 2


def test_what_to_type_next_reads_the_file_as_this_command_did(tmp_path: Path) -> None:
    cut = tmp_path / "cut report.ncu-rep"
    kept = ncu_bytes.block([ncu_bytes.launch("kept", {0: 5.0})], ["gpu__time_duration.sum"])
    cut.write_bytes(ncu_bytes.report(kept, ncu_bytes.block([ncu_bytes.launch("lost", {0: 5.0})]))[:-9])
    for options in (
        ("--salvage",),
        ("--salvage", "--no-config", "--spec", "h800-sxm"),
        ("--salvage", "--by", "kernel"),
        ("--salvage", "--explain", "kept"),
    ):
        said = run("show", cut, *options).stderr.splitlines()[-1]
        assert said.startswith(f"next: gpuprof show '{cut}' --salvage")
        assert "--spec" not in options or "--no-config --spec h800-sxm" in said
        done = run(*shlex.split(said.removeprefix("next: gpuprof ")))
        assert done.returncode == 0 and "kept" in done.stdout


def test_what_came_through_a_pipe_is_not_named_again() -> None:
    text = '"ID","Process ID","Kernel Name","gpu__time_duration.sum"\n"","","","usecond"\n"0","1","k()","5"\n'
    assert run("show", "-", stdin=text).stderr.endswith("next: gpuprof show FILE --kernel '#0'\n")


def test_a_report_fits_80_columns_with_all_findings(real_report: Path) -> None:
    loaded = session_of(real_report)
    ranked = by_time(loaded.kernels)
    text = shown(loaded, ranked, depth=True)
    # A word of a command line is not cut: it is to be copied.
    assert max(len(line) for line in lines_of(text) if len(line.split()) > 2) <= 80
    assert text.count("\n   do ") == sum(len(item.findings) for item in ranked[:20])
    for item in (item for profile in ranked[:20] for item in profile.findings):
        assert flat(item.headline) in flat(text)


def launches_of_two_kernels(folder: Path) -> Path:
    """Three launches of one kernel and one of another, of 1, 2, 3 and 4 µs."""
    path = folder / "launches.ncu-rep"
    values = [
        {**ncu_bytes.A100, **builders.FLOP_1, "gpu__time_duration.sum": 1000.0 * number} for number in range(1, 5)
    ]
    path.write_bytes(ncu_bytes.simple_report(list(zip(("saxpy", "saxpy", "saxpy", "copy"), values, strict=True))))
    return path


def test_equal_launches_are_one_kernel(tmp_path: Path) -> None:
    path = launches_of_two_kernels(tmp_path)
    text = run("show", path).stdout
    rows = [line.split() for line in text.splitlines() if re.match(r"\d +(saxpy|copy) ", line)]
    assert [row[:5] for row in rows] == [["1", "saxpy", "3", "6.00", "µs"], ["3", "copy", "1", "4.00", "µs"]]
    assert len(run("show", "--format", "csv", path).stdout.splitlines()) == 5
    table = [line for line in run("show", "--format", "md", path).stdout.splitlines() if line.startswith("| saxpy")]
    assert len(table) == 1 and "| 3 | 6.00 µs |" in table[0]


def test_a_launch_that_another_speaks_for_can_be_named(tmp_path: Path) -> None:
    path = launches_of_two_kernels(tmp_path)
    alone = run("show", "--kernel", "#0", path)
    assert "\n#0 saxpy\n" in alone.stdout and "equal launches" not in alone.stdout
    assert alone.stderr.endswith("--explain '#0'\n")
    assert run("show", "--explain", "#2", path).stdout.startswith("#2 saxpy: 3.00 µs, 30 %")
    group = run("show", "--explain", "saxpy", path)
    assert re.match(r"#1 saxpy: 2\.00 µs, .* 3 launches, 60 %", group.stdout) and "match" not in group.stderr
    document = json.loads(run("show", "--format", "json", "--kernel", "#3", path).stdout)
    assert {number for item in document["opportunities"] for number in item["kernels"]} <= {3}
    assert document["verdict"]["kernel"] == 3
