"""The terminal view of findings: order, words, width, bars and colour, on hand-made sessions and real reports."""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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


def test_the_order_is_the_pages() -> None:
    text = shown(TWO)
    marks = (
        "gather_rows, 50 % of the time, ",
        "2 kernels: 4.00 ms",
        "\nFix first ",
        "#  kernel",
        "\n#0 gather_rows",
        "\nGPU ",
    )
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)


def test_what_to_fix_first_has_gain_bar_headline_kernel_and_how_sure() -> None:
    block = shown(TWO).split("\nFix first ")[1].split("#  kernel")[0]
    assert lines_of(block)[0] == " share of the run saved: ≤ at most"
    first, action, about, second = lines_of(block)[1:5]
    assert first == "  ██▍       ≤ 30 %  headline of uncoalesced-global"
    assert action.strip() == "→ Let consecutive threads read consecutive words"
    assert flat(about) == "gather.cu:41, #0 gather_rows, uncoalesced-global, measured"
    assert second.split() == ["█▎", "≤", "15", "%", "headline", "of", "barrier-wait"]
    assert "≤ 10 % headline of low-occupancy a guess → Let" in flat(block)


def test_at_most_five_findings_come_first() -> None:
    many = session(
        *(kernel(number, finding(gain=0.1, action=f"Change {number}"), label=f"kernel_{number}") for number in range(8))
    )
    assert len(re.findall(r"^  .*≤", shown(many), re.MULTILINE)) == 5
    assert "and 3 more fixes, listed with their kernels" in shown(many)


def test_a_repair_of_many_kernels_is_one_line() -> None:
    many = session(*(kernel(number, finding(gain=0.1), label=f"kernel_{number}") for number in range(500)))
    text = shown(many)
    assert "gather.cu:41, in 500 kernels, uncoalesced-global" in flat(text)
    assert len(re.findall(r"^  .*≤", text, re.MULTILINE)) == 1


def test_what_is_held_is_named_and_never_called_the_most() -> None:
    held = session(kernel(0, finding(gain=0.2, gain_kind="fixed-work", held="the same instructions")))
    text = flat(shown(held))
    assert "share of the run saved: ~ under the condition named" in text
    assert "~ 10 % headline of uncoalesced-global with the same instructions → Let" in text
    assert "gain 20 % of this kernel's time with the same instructions, 10 % of the run" in text
    assert "at most" not in text and "≤" not in text.split("# kernel")[0]
    drawn = io.StringIO()
    print_tree(Console(file=drawn, width=120), held, explain(held.kernels[0]))
    assert "~ 20 %  headline of uncoalesced-global (high, uncoalesced-global, with the same" in drawn.getvalue()


def test_what_is_left_after_those_before_is_told_where_it_is_less() -> None:
    # 60 % go first, of which 40 % would remain for L1: of the other's 50 % nothing is left beyond L2's 40 %.
    first = finding(gain=0.6, remains=(Remaining("l2", 0.4), Remaining("l1", 0.3)))
    second = finding("tail-effect", 0.5, remains=(Remaining("l2", 0.5), Remaining("l1", 0.3)), action="Even it out")
    text = flat(shown(session(kernel(0, first, second))))
    assert "≤ 25 % headline of tail-effect nothing after the ones above → Even it out" in text
    assert "gain at most 60 % of this kernel's time, 30 % of the run; then L2 still needs 40 % of this kernel's" in text


def test_an_explained_finding_is_brief_and_names_its_cause() -> None:
    cause = finding(id="0.uncoalesced-global")
    symptom = finding("memory-latency", 0.3, severity="info", id="0.memory-latency", cause=cause.id)
    what = session(kernel(0, cause, symptom))
    words_of_it = "headline of memory-latency (explained by #0 uncoalesced-global: fix that first)"
    assert f"also {words_of_it}" in flat(shown(what))
    whole = flat(shown(what, depth=True))
    assert "info headline of memory-latency cause explained by #0 uncoalesced-global: fix that first" in whole


def told(command: str) -> Session:
    what = session(kernel(0, finding()))
    assert what.verdict is not None
    unknown = "The report does not show which pipe is busy."
    return replace(what, verdict=replace(what.verdict, unknown=unknown, command=command))


def test_the_command_that_collects_the_rest_can_be_copied() -> None:
    arguments = " ".join(f"--option{number}=value" for number in range(12))
    command = f"ncu --set full ./app {arguments} 'two  words' a\\ b \"it's\" {'x' * 150}"
    text = shown(told(command))
    start = text.index("   ncu --set full")
    block = text[start:].split("\n\n")[0]
    assert "The report does not show which pipe is busy. To collect what is missing:" in flat(text)
    assert shlex.split(block.replace("\\\n", "")) == shlex.split(command)
    assert all(line.endswith(" \\") for line in lines_of(block)[:-1])
    assert max(map(len, lines_of(block)[:-1])) <= 80


@each_row("command", ["app 'half a quote " + "x " * 60, 'app "x', "app \\", HOSTILE, "a\nb"])
def test_a_command_that_no_shell_takes_apart_stays_on_one_line(command: str) -> None:
    lines = lines_of(shown(told(command)))
    (place,) = (index for index, line in enumerate(lines) if line.endswith("To collect what is missing:"))
    assert lines[place + 1].startswith("   ") and lines[place + 2] == ""


@each_row("width", [60, 80, 100, 160])
def test_verdict_and_repairs_fit_every_width(width: int) -> None:
    long = "x" * 400
    what = session(
        *(
            kernel(
                number, finding(headline=long, action=long, gain_kind="fixed-work", held=long), label=f"{number}{long}"
            )
            for number in range(3)
        )
    )
    assert max(map(len, lines_of(shown(what, width=width)))) <= width
    assert "…" in shown(what, width=width).splitlines()[0] + shown(what, width=width).splitlines()[1]


def test_without_findings_there_is_no_list() -> None:
    assert "\nFix first " not in shown(session(kernel()))


def test_a_finding_is_told_in_full() -> None:
    card = flat(shown(TWO).split("\n#0 ")[1])
    for words in (
        "high headline of uncoalesced-global",
        "gain at most 60 % of this kernel's time, 30 % of the run",
        "why Half of each sector is not used.",
        "evidence sectors of a request: 8 sectors, threshold 4 sectors",
        "where gather.cu:41, 62 % of the finding",
        "do Let consecutive threads read consecutive words.",
        "sure measured by a counter, or told by the launch itself; rule uncoalesced-global",
    ):
        assert words in card


def test_little_to_gain_is_brief_unless_the_kernel_was_asked_for() -> None:
    brief = flat(shown(TWO))
    assert "also headline of low-occupancy (at most 20 % of this kernel's time, 10 % of the run)" in brief
    assert brief.count("Let consecutive threads") == 4
    whole = flat(shown(TWO, TWO.kernels[:1], depth=True))
    assert whole.count("Let consecutive threads") == 3
    assert "info headline of tail-effect gain nothing to gain by itself" in whole


def test_depth_has_the_code_around_the_hottest_line() -> None:
    text = shown(TWO, TWO.kernels[:1], depth=True)
    assert "   code        gather.cu, share of samples\n" in text
    assert re.search(r" 60 %  41  out\[i\] = in\[j\];  \(Long Scoreboard 80 %\)\n", text)
    assert "code" not in shown(TWO)


def test_schedulers_and_hit_rates_are_among_the_facts() -> None:
    text = flat(shown(TWO))
    assert "30 % of issue slots used; warps per scheduler: 9.60 active of 16, 0.500 eligible" in text
    assert "L1 1.00 kB, 1.00 TB/s, 25 % hit" in text
    assert "pipes busy LSU 40 %, ALU 20 %, FMA 10 %, XU 5.0 %" in text


@each_row(("width", "stall", "rule"), [(80, False, False), (100, True, False), (120, True, True)])
def test_wide_terminals_have_the_main_stall_and_the_first_finding(width: int, stall: bool, rule: bool) -> None:
    table = shown(TWO, width=width).split("#  kernel")[1].split("\n\n#0")[0]
    assert ("Long Scoreboard" in table) is stall
    assert ("uncoalesced-global" in table) is rule


def test_colour_is_for_terminals() -> None:
    assert "\x1b[" not in shown(TWO)
    coloured = shown(TWO, terminal=True)
    assert "\x1b[1;31m" in coloured
    assert flat(re.sub(r"\x1b\[[0-9;]*m", "", coloured)) == flat(shown(TWO))


def test_no_line_of_a_pipe_ends_in_spaces() -> None:
    assert [line for line in lines_of(shown(TWO)) if line != line.rstrip()] == []


def test_without_unicode_bars_and_lines_are_ascii_and_still_fit() -> None:
    tolerate(io.TextIOWrapper(io.BytesIO(), "ascii"))
    text = shown(TWO, depth=True, stream=Ascii())
    assert "##" in text and "<= 30 %" in text
    drawn = Ascii()
    print_tree(Console(file=drawn, width=60, color_system=None), TWO, explain(TWO.kernels[0]))
    assert "|- " in drawn.getvalue() and "`- " in drawn.getvalue()
    assert max(map(len, lines_of(text))) <= 80 and max(map(len, lines_of(drawn.getvalue()))) <= 60
    for char in "█├└│≤":
        assert char not in text + drawn.getvalue()


def test_bars_are_as_long_as_their_fraction() -> None:
    sheet = Sheet(80)
    assert [sheet.bar(value, 4) for value in (0, 0.001, 0.5, 0.53, 1, 2)] == [
        "    ",
        "▏   ",
        "██  ",
        "██▏ ",
        "████",
        "████",
    ]
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


def test_a_very_long_headline_wraps_inside_its_column() -> None:
    text = shown(session(kernel(0, finding(headline="word " * 100 + "x" * 300))))
    assert max(map(len, lines_of(text))) <= 80


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


def test_an_error_names_the_option_that_was_typed(tmp_path: Path) -> None:
    path = launches_of_two_kernels(tmp_path)
    assert "error: --explain '(' is not a regular expression" in run("show", "--explain", "(", path).stderr
    assert run("show", "--explain", "zz", path).returncode == 2


def test_the_last_word_is_what_to_type_next(reports: Path) -> None:
    report = reports / "gpu_workshop-MW_Baseline.ncu-rep"
    done = run("show", report)
    assert done.stderr == f"next: gpuprof show {report} --kernel '#2'\n"
    assert run("show", "--kernel", "#4", report).stderr == f"next: gpuprof show {report} --explain '#4'\n"
    assert run("show", "-v", report).stderr == f"next: gpuprof show {report} --explain '#2'\n"


def test_what_to_type_next_is_on_the_kernel_of_the_verdict(reports: Path) -> None:
    for name, sort, number in (
        ("cuda_learning_mojo-profile.ncu-rep", "time", 2),  # the longest only warms up
        ("cuda_learning_mojo-profile.ncu-rep", "launch", 0),
        ("sglang-profile.ncu-rep", "time", 2),  # that of the verdict has no numbers
    ):
        report = reports / name
        assert run("show", report, "--sort", sort).stderr == f"next: gpuprof show {report} --kernel '#{number}'\n"


def test_what_to_type_next_reads_the_file_as_this_command_did(reports: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut report.ncu-rep"
    cut.write_bytes((reports / "sglang-profile.ncu-rep").read_bytes()[:1_500_000])
    for options in (
        ("--salvage",),
        ("--salvage", "--no-config", "--spec", "h800-sxm"),
        ("--salvage", "--by", "kernel"),
        ("--salvage", "--explain", "normal"),
    ):
        said = run("show", cut, *options).stderr.splitlines()[-1]
        assert said.startswith(f"next: gpuprof show '{cut}' --salvage")
        assert "--spec" not in options or said.endswith(" --no-config --spec h800-sxm --kernel '#0'")
        done = run(*shlex.split(said.removeprefix("next: gpuprof ")))
        assert done.returncode == 0 and "distribution_elementwise" in done.stdout
    drawn = run("roofline", cut, "--salvage", cwd=tmp_path).stderr
    assert drawn.endswith(f"next: gpuprof show '{cut}' --salvage --kernel '#0'\n")


def test_what_came_through_a_pipe_is_not_named_again() -> None:
    text = '"ID","Process ID","Kernel Name","gpu__time_duration.sum"\n"","","","usecond"\n"0","1","k()","5"\n'
    assert run("show", "-", stdin=text).stderr.endswith("next: gpuprof show FILE --kernel '#0'\n")


def test_every_real_report_fits_80_columns_with_all_findings(real_report: Path) -> None:
    loaded = session_of(real_report)
    ranked = by_time(loaded.kernels)
    text = shown(loaded, ranked, depth=True)
    # A word of a command line is not cut: it is to be copied.
    assert max(len(line) for line in lines_of(text) if len(line.split()) > 2) <= 80
    assert text.count("\n   do ") == sum(len(one.findings) for one in ranked[:20])
    for item in (item for one in ranked[:20] for item in one.findings):
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
    assert "3 equal launches, 6.00 µs in all, 1.00 µs to 3.00 µs each" in flat(run("show", "-v", path).stdout)
    assert len(run("show", "--format", "csv", path).stdout.splitlines()) == 5
    table = [line for line in run("show", "--format", "md", path).stdout.splitlines() if line.startswith("| saxpy")]
    assert len(table) == 1 and "| 3 | 6.00 µs |" in table[0]


def test_a_launch_that_another_speaks_for_can_be_named(tmp_path: Path) -> None:
    path = launches_of_two_kernels(tmp_path)
    one = run("show", "--kernel", "#0", path).stdout
    assert "\n#0 saxpy\n" in one and "equal launches" not in one
    assert run("show", "--explain", "#2", path).stdout.startswith("#2 saxpy: 3.00 µs, 30 % of the run\n")
    group = run("show", "--explain", "saxpy", path)
    assert group.stdout.startswith("#1 saxpy: 2.00 µs, median of 3 launches, 60 % of the run\n")
    assert "match" not in group.stderr


def test_json_of_one_kernel_ranks_that_kernel_alone(reports: Path) -> None:
    import json

    document = json.loads(
        run("show", "--format", "json", "--kernel", "#4", reports / "gpu_workshop-MW_Baseline.ncu-rep").stdout
    )
    assert {number for item in document["opportunities"] for number in item["kernels"]} == {4}
    assert document["verdict"]["kernel"] == 4
