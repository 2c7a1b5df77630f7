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

from gpuprof.model.session import KernelProfile, Session
from gpuprof.notebook import LoadedSession
from gpuprof.views.document import Document
from gpuprof.views.explain import explanation
from gpuprof.views.profile import print_session
from gpuprof.views.terminal import print_document
from gpuprof.words.explain import explain
from tests import builders, ncu_bytes
from tests.cli import gpuprof as run
from tests.formats import written
from tests.hand_made import HOSTILE, finding, kernel, session
from tests.table import each_row


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


def explained(what: Session) -> Document:
    return explanation(what, None, explain(what.kernels[0]))


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


def test_hostile_findings_do_no_harm_in_the_terminal() -> None:
    place = finding().place
    assert place is not None
    bad = finding(
        headline=HOSTILE, why=HOSTILE, action=HOSTILE, advice=HOSTILE, held=HOSTILE, gain_kind="conditional",
        place=replace(place, file=HOSTILE, sass=HOSTILE),
        evidence=(replace(finding().evidence[0], metric=HOSTILE, meaning=HOSTILE, unit=HOSTILE),),
    )  # fmt: skip
    evil = session(kernel(0, bad, label=HOSTILE, demangled=HOSTILE))
    drawn = io.StringIO()
    print_document(Console(file=drawn, width=80), explained(evil))
    for text in (shown(evil, depth=True, width=120), drawn.getvalue()):
        assert "\x1b" not in text and "\u202e" not in text
        assert "[red]" in text and "\\x1b[31m" in text


@each_row("number", [0.0, 1e-30, 1.0, 1e30])
def test_numbers_that_no_gpu_has_are_shown(number: float) -> None:
    odd = with_every_float(kernel(0, finding(), finding("tail-effect", severity="info")), number)
    assert isinstance(odd, KernelProfile)
    made = session(odd, with_every_float(kernel(1, finding(gain=None)), number))
    drawn = io.StringIO()
    print_document(Console(file=drawn, width=80), explained(made))
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
    table = [line for line in run("show", "--format", "md", path).stdout.splitlines() if "| saxpy" in line]
    assert len(table) == 1 and "| 3 | 6.00 µs |" in table[0]
