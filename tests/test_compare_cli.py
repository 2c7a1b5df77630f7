"""`gpuprof compare`: sides, the gate and its exit codes, what is written where; and two measured files.

The numbers here are made up, but for the real reports.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

import gpuprof as package
from gpuprof.characterize.sheet.measured_text import measured_text
from gpuprof.cli import patience
from gpuprof.comparison.contract import Comparison
from tests.cli import Done, gpuprof
from tests.ncu_bytes import simple_report
from tests.table import each_row
from tests.test_measured_ceilings import made_up
from tests.test_run import BASELINE

FIXED = "gpu_workshop-MW_DivToMult.ncu-rep"
"""The real report of BASELINE's program after a change."""


def compare(*arguments: str, cwd: Path | None = None, stdin: str | None = None) -> Done:
    """Run the command."""
    return gpuprof("compare", *arguments, cwd=cwd, stdin=stdin)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Two files of a made-up GPU; DRAM of the second is a tenth slower."""
    base = made_up()
    slower = replace(base.values["bandwidth/dram-read"], value=8.5e11 * 0.9)
    new = replace(base, values={**base.values, "bandwidth/dram-read": slower})
    paths = tmp_path / "base.measured.yaml", tmp_path / "new.measured.yaml"
    for path, measured in zip(paths, (base, new), strict=True):
        path.write_text(measured_text(measured))
    return str(paths[0]), str(paths[1])


@each_row("form", ["table", "md"])
def test_two_files_are_set_side_by_side(files: tuple[str, str], form: str) -> None:
    done = compare(*files, "--format", form)
    assert done.returncode == 0, done.stderr
    assert "dram-read" in done.stdout and "−10 %" in done.stdout and "worse" in done.stdout


def test_json_has_both_values(files: tuple[str, str]) -> None:
    text = compare(*files, "--format", "json").stdout
    assert json.loads(text)
    assert "850000000000" in text and "765000000000" in text


@each_row("name", ["report.ncu-rep", "none.measured.yaml"])
def test_what_is_no_measured_file_is_told(files: tuple[str, str], name: str) -> None:
    done = compare(files[0], name)
    assert done.returncode == 5 and name in done.stderr and "Traceback" not in done.stderr


def test_a_measured_file_and_a_profile_cannot_be_compared(files: tuple[str, str], place: Path) -> None:
    done = compare(str(place / "base.ncu-rep"), files[1])
    assert done.returncode == 5 and "describes a GPU" in done.stderr and "they cannot be compared" in done.stderr


@each_row("option", [("--fail-on", "time:3%"), ("--kernel", "gemm"), ("-o", "x.md"), ("-v",)])
def test_options_about_profiles_are_refused_for_measured_files(files: tuple[str, str], option: tuple[str, ...]) -> None:
    done = compare(*files, *option)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is about profiles, and measured files were named" in done.stderr


def test_a_configuration_for_profiles_leaves_measured_files_alone(files: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "gpuprof.toml").write_text('top = 3\n[compare]\nfail-on = ["time:3%"]\n')
    done = compare(*files, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


# Profiles


def report(instructions: float = 1e6, registers: float = 40.0, name: str = "sgemm", seconds: float = 1e-3) -> bytes:
    """A report of a kernel and another one that is always the same."""
    same = {"gpu__time_duration.sum": 5e-4, "smsp__inst_executed.sum": 3e5, "launch__registers_per_thread": 16.0}
    own = {
        "gpu__time_duration.sum": seconds,
        "smsp__inst_executed.sum": instructions,
        "launch__registers_per_thread": registers,
    }
    return simple_report([(name, own), ("copy", same)])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a base, the same again, and a new version whose kernel executes 20 % more by more registers."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "base.ncu-rep").write_bytes(report())
    (tmp_path / "again.ncu-rep").write_bytes(report())
    (tmp_path / "new.ncu-rep").write_bytes(report(1.2e6, 72.0))
    return tmp_path


def last(done: Done) -> str:
    """The last line on stderr."""
    return done.stderr.splitlines()[-1]


@each_row("sides", [("-", "new.ncu-rep"), ("base.ncu-rep", "-")])
def test_what_is_next_names_both_sides_where_one_came_through_a_pipe(place: Path, sides: tuple[str, str]) -> None:
    piped = {"-": "base.ncu-rep", "base.ncu-rep": "new.ncu-rep"}[sides[0]]
    text = gpuprof("show", "--format", "json", piped, cwd=place).stdout
    named = " ".join(sides).replace("-", "FILE", 1) if sides[0] == "-" else "base.ncu-rep FILE"
    assert last(compare(*sides, cwd=place, stdin=text)).startswith(f"next: gpuprof compare {named} --kernel '#")


def test_two_reports_are_compared_without_a_gate(place: Path) -> None:
    done = compare("base.ncu-rep", "new.ncu-rep", cwd=place)
    assert done.returncode == 0 and "sgemm" in done.stdout and "gate" not in done.stdout.lower()
    assert last(done).startswith("next: gpuprof compare base.ncu-rep new.ncu-rep --kernel '#")
    assert len(done.stdout.splitlines()) < 30


def test_what_is_next_can_be_typed(place: Path) -> None:
    shown = compare("base.ncu-rep", "new.ncu-rep", "--kernel", "sgemm", cwd=place)
    assert shown.returncode == 0 and "instructions" in shown.stdout and "next:" not in shown.stderr


@each_row(
    ("limits", "code"),
    [
        (["instructions:1%"], 6),
        (["instructions:25%"], 0),
        (["registers"], 6),
        (["copy=instructions:1%", "copy=registers"], 0),
        (["instructions:25%", "sgemm=instructions:1%"], 6),
        (["instructions:1%", "sgemm=instructions:25%"], 0),
        (["spills"], 0),
    ],
)
def test_a_work_regression_is_exit_code_6(place: Path, limits: list[str], code: int) -> None:
    options = [word for limit in limits for word in ("--fail-on", limit)]
    done = compare("base.ncu-rep", "new.ncu-rep", *options, cwd=place)
    assert done.returncode == code, done.stderr
    assert last(done).startswith("gate failed: " if code else "gate passed")
    assert compare("base.ncu-rep", "again.ncu-rep", *options, cwd=place).returncode == 0


def test_the_last_line_says_which_limit_failed_and_for_which_kernel(place: Path) -> None:
    options = ("--fail-on", "instructions:1%", "--fail-on", "registers")
    done = compare("base.ncu-rep", "new.ncu-rep", *options, cwd=place)
    assert last(done) == (
        "gate failed: instructions:1% of sgemm: instructions 1.00 → 1.20 M (+20 %), 1 % is allowed; 1 more"
    )
    assert "sgemm" in done.stdout


def test_what_is_unclear_or_missing_fails_where_it_is_to(place: Path) -> None:
    options = ("base.ncu-rep", "again.ncu-rep", "--fail-on", "spills")
    passed = compare(*options, cwd=place)
    assert passed.returncode == 0
    assert last(passed) == "gate passed, but no limit could be judged: 2 not compared"
    done = compare(*options, "--unclear", "fail", cwd=place)
    assert done.returncode == 7
    assert re.match(
        r"gate failed: spills of (sgemm|copy) is not compared: local-memory sectors not known on either side",
        last(done),
    )


def test_several_files_a_side_are_runs(place: Path) -> None:
    (place / "again.ncu-rep").write_bytes(report(1.0001e6))
    for words in (
        ("--base", "base.ncu-rep", "again.ncu-rep", "--new", "new.ncu-rep", "--fail-on", "registers"),
        ("--new=new.ncu-rep", "--base", "base.ncu-rep", "--base", "again.ncu-rep", "--fail-on", "registers"),
        ("--fail-on", "registers", "--base=base.ncu-rep", "again.ncu-rep", "--new", "new.ncu-rep"),
    ):
        done = compare(*words, "--format", "json", cwd=place)
        assert done.returncode == 6, done.stderr
        document = json.loads(done.stdout)
        assert document["base"]["files"] == ["base.ncu-rep", "again.ncu-rep"]
        assert document["new"]["files"] == ["new.ncu-rep"]


def test_a_session_comes_through_a_pipe(place: Path) -> None:
    session = gpuprof("show", "base.ncu-rep", "--format", "json", cwd=place).stdout
    done = compare("-", "new.ncu-rep", "--fail-on", "registers", cwd=place, stdin=session)
    assert done.returncode == 6, done.stderr
    # A report and its session are the same.
    assert compare("-", "again.ncu-rep", "--fail-on", "registers", cwd=place, stdin=session).returncode == 0


def test_a_side_without_kernels_cannot_be_used(place: Path) -> None:
    (place / "empty.ncu-rep").write_bytes(simple_report([]))
    for words in (("base.ncu-rep", "empty.ncu-rep"), ("empty.ncu-rep", "base.ncu-rep")):
        done = compare(*words, "-o", "out.md", cwd=place)
        assert (done.returncode, done.stdout) == (5, "") and "empty.ncu-rep" in done.stderr
        assert not (place / "out.md").exists()


def test_nothing_in_common_is_shown_and_fails_only_a_gate(place: Path) -> None:
    (place / "other.ncu-rep").write_bytes(simple_report([("entirely_other", {"gpu__time_duration.sum": 1e-3})]))
    assert compare("base.ncu-rep", "other.ncu-rep", cwd=place).returncode == 0
    done = compare("base.ncu-rep", "other.ncu-rep", "--fail-on", "time:3%", cwd=place)
    assert (done.returncode, done.stdout) == (5, "") and "no kernel is on both sides" in done.stderr


def test_kernels_that_are_named_belong_together(place: Path) -> None:
    (place / "renamed.ncu-rep").write_bytes(report(1.2e6, name="completely_else"))
    options = ("base.ncu-rep", "renamed.ncu-rep", "--match", "sgemm=completely_else", "--fail-on", "instructions:1%")
    done = compare(*options, cwd=place)
    assert done.returncode == 6 and "instructions:1% of " in last(done)


# Files


def test_every_format_is_written_at_once_before_the_exit_code(place: Path) -> None:
    names = ("c.html", "c.json", "c.md", "c.xml", "c.sarif", "gitlab=quality.json")
    options = [word for name in names for word in ("-o", name)]
    done = compare("base.ncu-rep", "new.ncu-rep", "--fail-on", "registers", *options, cwd=place)
    assert done.returncode == 6
    assert "wrote c.html, c.json, c.md, c.xml, c.sarif, quality.json\n" in done.stderr
    assert json.loads((place / "c.json").read_text())["gate"]["exit_code"] == 6
    assert json.loads((place / "c.sarif").read_text())["version"] == "2.1.0"
    assert isinstance(json.loads((place / "quality.json").read_text()), list)
    assert ET.parse(place / "c.xml").getroot().tag in ("testsuites", "testsuite")
    assert "sgemm" in (place / "c.md").read_text()
    assert (place / "c.html").read_text().lower().startswith("<!doctype html>")


@each_row("form", ["json", "md", "junit", "sarif", "github", "gitlab"])
def test_every_format_goes_to_stdout(place: Path, form: str) -> None:
    done = compare("base.ncu-rep", "new.ncu-rep", "--format", form, "--fail-on", "registers", cwd=place)
    assert done.returncode == 6 and done.stdout and last(done).startswith("gate failed: registers of sgemm: ")


def test_nothing_is_replaced_without_leave_and_an_input_never(place: Path) -> None:
    (place / "c.md").write_text("mine")
    done = compare("base.ncu-rep", "new.ncu-rep", "-o", "c.md", "-o", "c.json", cwd=place)
    assert done.returncode == 2 and (place / "c.md").read_text() == "mine" and not (place / "c.json").exists()
    assert compare("base.ncu-rep", "new.ncu-rep", "-o", "c.md", "--force", cwd=place).returncode == 0
    assert (place / "c.md").read_text() != "mine"
    done = compare("base.ncu-rep", "new.ncu-rep", "-o", "md=new.ncu-rep", "--force", cwd=place)
    assert done.returncode == 2 and "is an input and cannot be the output" in done.stderr


def test_hostile_names_steer_no_terminal(place: Path) -> None:
    name = "a\x1b[31m\u202e<script>" + "x" * 15_000
    (place / "base.ncu-rep").write_bytes(report(name=name))
    (place / "new.ncu-rep").write_bytes(report(2e6, name=name))
    for options in ((), ("-v",), ("--format", "github"), ("--format", "md"), ("--kernel", "script")):
        done = compare("base.ncu-rep", "new.ncu-rep", "--fail-on", "instructions", *options, cwd=place)
        assert done.returncode == 6, done.stderr
        assert not {"\x1b", "\u202e"} & set(done.stdout + done.stderr)
        assert len(last(done)) < 300


# Accepted, and the baseline


def test_an_accepted_regression_passes(place: Path) -> None:
    entry = "[[accepted]]\nkernel = 'sgemm'\nlimit = 'registers'\nreason = 'Twice the tile.'\nuntil = {}\n"
    (place / "accepted.toml").write_text(entry.format("9999-12-31"))
    options = ("base.ncu-rep", "new.ncu-rep", "--fail-on", "registers", "--accept", "accepted.toml")
    done = compare(*options, "--format", "json", cwd=place)
    assert done.returncode == 0 and last(done) == "gate passed: 1 check holds, 1 accepted"
    (check,) = json.loads(done.stdout)["gate"]["checks"]
    assert (check["word"], check["accepted"]) == ("accepted", "Twice the tile.")
    (place / "accepted.toml").write_text(entry.format("2020-02-29"))
    done = compare(*options, cwd=place)
    assert done.returncode == 6 and "it was accepted until 2020-02-29, which has passed" in last(done)
    (place / "accepted.toml").write_text("\n\n" + entry.format("'soon'"))
    done = compare(*options, cwd=place)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith("error: accepted.toml:3: until cannot be 'soon'\n")


def test_the_baseline_is_replaced_where_the_gate_passes(place: Path) -> None:
    (place / "new.ncu-rep").write_bytes(report(1.005e6))
    options = ("base.ncu-rep", "new.ncu-rep", "--update-baseline", "--fail-on")
    before = (place / "base.ncu-rep").read_bytes()
    done = compare(*options, "instructions", cwd=place)
    assert done.returncode == 6 and "kept base.ncu-rep: the gate has not passed\n" in done.stderr
    assert (place / "base.ncu-rep").read_bytes() == before
    done = compare(*options, "instructions:1%", cwd=place)
    assert done.returncode == 0 and "replaced base.ncu-rep by new.ncu-rep\n" in done.stderr
    assert (place / "base.ncu-rep").read_bytes() == (place / "new.ncu-rep").read_bytes() != before
    assert sorted(path.name for path in place.iterdir()) == [".git", "again.ncu-rep", "base.ncu-rep", "new.ncu-rep"]


def test_the_baseline_is_replaced_by_force_although_a_limit_is_exceeded(place: Path) -> None:
    done = compare("base.ncu-rep", "new.ncu-rep", "--update-baseline", "--force", "--fail-on", "registers", cwd=place)
    assert done.returncode == 6 and "although the gate has not passed" in done.stderr
    assert (place / "base.ncu-rep").read_bytes() == (place / "new.ncu-rep").read_bytes()


def test_a_baseline_that_is_a_link_stays_one(place: Path) -> None:
    (place / "base.ncu-rep").rename(place / "stored.ncu-rep")
    (place / "base.ncu-rep").symlink_to("stored.ncu-rep")
    options = ("--update-baseline", "--fail-on", "instructions:50%")
    assert compare("base.ncu-rep", "new.ncu-rep", *options, cwd=place).returncode == 0
    assert (place / "base.ncu-rep").is_symlink()
    assert (place / "stored.ncu-rep").read_bytes() == (place / "new.ncu-rep").read_bytes()


@each_row(
    ("words", "told"),
    [
        (("base.ncu-rep", "base.ncu-rep"), "are the same file"),
        (("base.ncu-rep", "s.json"), "would replace base.ncu-rep, a file of another kind"),
        (
            ("--base", "base.ncu-rep", "again.ncu-rep", "--new", "new.ncu-rep"),
            "2 and 1 files, and which replaces which",
        ),
        (("base.ncu-rep", "-"), "- is not a regular file"),
    ],
)
def test_a_baseline_is_not_replaced_where_it_is_not_clear_by_what(
    place: Path, words: tuple[str, ...], told: str
) -> None:
    (place / "s.json").write_text("{}")
    done = compare(*words, "--update-baseline", "--fail-on", "registers", cwd=place)
    assert (done.returncode, done.stdout) == (2, "") and told in done.stderr


# Python, show, and real reports


def test_python_compares_as_the_command_does(place: Path) -> None:
    base, new = place / "base.ncu-rep", place / "new.ncu-rep"
    compared = package.compare(base, [new], fail_on=["registers", "spills"], unclear="fail")
    assert compared.comparison.gate is not None and compared.comparison.gate.exit_code == 6
    assert package.compare(base, new).comparison.gate is None
    alone = package.compare(base, new, kernel="copy", fail_on=["registers"]).comparison
    assert alone.gate is not None and alone.gate.passed and len(alone.kernels) == 1


@each_row(
    ("options", "told"),
    [
        ({"fail_on": ["time:3"]}, "fail_on 'time:3': '3' has no %"),
        ({"unclear": "perhaps"}, "unclear cannot be 'perhaps'"),
        ({"kernel": "nope"}, "--kernel 'nope' matches no kernel"),
    ],
)
def test_python_refuses_what_the_command_refuses(place: Path, options: dict[str, object], told: str) -> None:
    with pytest.raises(package.errors.UsageError) as caught:
        package.compare(place / "base.ncu-rep", place / "new.ncu-rep", **options)  # type: ignore[arg-type]
    assert told in caught.value.message


def test_reports_with_the_same_kernels_that_are_shown_together_are_pointed_here(place: Path) -> None:
    (place / "other.ncu-rep").write_bytes(simple_report([("entirely_other", {"gpu__time_duration.sum": 1e-3})]))
    note = "to compare them: gpuprof compare base.ncu-rep new.ncu-rep\n"
    assert note in gpuprof("show", "base.ncu-rep", "new.ncu-rep", cwd=place).stderr
    assert "compare" not in gpuprof("show", "base.ncu-rep", "other.ncu-rep", cwd=place).stderr
    assert "compare" not in gpuprof("show", "base.ncu-rep", cwd=place).stderr


def test_a_real_change_is_told_and_passes_its_gate(reports: Path, tmp_path: Path) -> None:
    base, new = str(reports / BASELINE), str(reports / FIXED)
    limits = ("--fail-on", "instructions:1%", "--fail-on", "registers")
    done = compare(base, new, *limits, "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    changes = {change["label"]: change for change in json.loads(done.stdout)["kernels"]}
    assert changes["compute_tendencies_x_279_gpu"]["time"]["verdict"] == "faster"
    # The other way round the change is a regression, of that kernel alone.
    back = compare(new, base, *limits, "--format", "json", cwd=tmp_path)
    failed = [check for check in json.loads(back.stdout)["gate"]["checks"] if check["word"] == "regression"]
    assert back.returncode == 6 and {check["limit"] for check in failed} >= {"instructions:1%"}
    assert "of compute_tendencies_x_279_gpu: " in last(back)


def test_a_real_report_is_the_same_as_itself(reports: Path) -> None:
    file = str(reports / BASELINE)
    limits = [word for limit in ("instructions", "registers", "dram-bytes", "spills") for word in ("--fail-on", limit)]
    done = compare(file, file, *limits)
    assert done.returncode == 0 and "regression" not in done.stdout


# Whoever types it, and whatever they type


@each_row(
    ("words", "told"),
    [
        (("--unclear", "fail"), "--unclear fail is about limits, and there are none"),
        (("--accept", "accepted.toml"), "--accept is about limits, and there are none"),
        (("--fail-on", "registers", "--accept", ""), "--accept names no file"),
        (("--update-baseline", "--fail-on", "registers", "--kernel", "copy"), "--kernel holds the limits against some"),
        (("--update-baseline", "--fail-on", "registers", "--salvage"), "of a damaged report is not a baseline"),
        (("-o", "table=x"), "unknown format table"),
    ],
)
def test_a_gate_that_would_pass_anything_is_a_wrong_command_line(
    place: Path, words: tuple[str, ...], told: str
) -> None:
    (place / "accepted.toml").write_text("")
    done = compare("base.ncu-rep", "new.ncu-rep", *words, cwd=place)
    assert (done.returncode, done.stdout) == (2, "") and told in done.stderr and "\nhint: " in done.stderr


def test_a_gate_in_the_configuration_may_have_options_that_wait_for_limits(place: Path) -> None:
    (place / "gpuprof.toml").write_text('[compare]\nunclear = "fail"\n')
    assert compare("base.ncu-rep", "new.ncu-rep", cwd=place).returncode == 0


def test_a_file_of_accepted_regressions_that_is_missing_says_what_it_takes(place: Path) -> None:
    done = compare("base.ncu-rep", "new.ncu-rep", "--fail-on", "registers", "--accept", "none.toml", cwd=place)
    assert done.returncode == 5
    assert done.stderr == (
        "error: none.toml cannot be read: no such file or directory\n"
        "hint: --accept takes a TOML file of [[accepted]] tables\n"
    )


def test_the_last_line_says_that_both_sides_are_one_recording(place: Path) -> None:
    done = compare("base.ncu-rep", "base.ncu-rep", "--fail-on", "registers", cwd=place)
    assert (done.returncode, last(done)) == (0, "gate passed: 2 checks hold; both sides are the same recording")
    alone = compare("base.ncu-rep", "base.ncu-rep", "--kernel", "copy", cwd=place)
    assert alone.stdout.startswith("both sides are the same recording: nothing to compare\n")


def test_a_kernel_that_is_new_escapes_no_eye(place: Path) -> None:
    renamed = [("entirely_other", {"gpu__time_duration.sum": 1e-3}), ("copy", {"launch__registers_per_thread": 16.0})]
    (place / "new.ncu-rep").write_bytes(simple_report(renamed))
    done = compare("base.ncu-rep", "new.ncu-rep", "--fail-on", "registers", "--format", "json", cwd=place)
    assert (done.returncode, last(done)) == (0, "gate passed: 1 check holds; 1 new without a base")
    note = "1 kernel is new: it has no base, and no limit of a kernel was held against it."
    assert note in json.loads(done.stdout)["notes"]


def test_a_baseline_is_kept_where_no_limit_could_be_judged(place: Path) -> None:
    before = (place / "base.ncu-rep").read_bytes()
    done = compare("base.ncu-rep", "new.ncu-rep", "--update-baseline", "--fail-on", "spills", cwd=place)
    assert done.returncode == 0 and "kept base.ncu-rep: no limit could be judged\n" in done.stderr
    assert (place / "base.ncu-rep").read_bytes() == before


def test_a_read_only_baseline_is_left_alone_and_others_keep_who_may_read_them(place: Path) -> None:
    options = ("base.ncu-rep", "new.ncu-rep", "--update-baseline", "--fail-on", "instructions:50%")
    before = (place / "base.ncu-rep").read_bytes()
    (place / "base.ncu-rep").chmod(0o400)
    done = compare(*options, "--force", cwd=place)
    assert done.returncode == 2 and "base.ncu-rep is read-only\nhint: chmod u+w base.ncu-rep\n" in done.stderr
    assert (place / "base.ncu-rep").read_bytes() == before
    (place / "base.ncu-rep").chmod(0o600)
    assert compare(*options, cwd=place).returncode == 0
    assert (place / "base.ncu-rep").read_bytes() != before
    assert (place / "base.ncu-rep").stat().st_mode & 0o777 == 0o600


@each_row("form", ["table", "json", "md", "junit", "sarif", "github", "gitlab"])
@each_row(("limit", "code"), [("registers", 6), ("registers:100%", 141)])
def test_a_gate_that_fails_does_so_although_the_reader_of_the_pipe_has_gone(
    place: Path, form: str, limit: str, code: int
) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    try:
        words = ("compare", "base.ncu-rep", "new.ncu-rep", "--fail-on", limit, "--format", form)
        done = gpuprof(*words, cwd=place, onto={1: writes})
    finally:
        os.close(writes)
    assert done.returncode == code and "Traceback" not in done.stderr
    assert ("gate failed: registers of sgemm" in done.stderr) == (code == 6)


def test_a_gate_that_fails_does_so_although_its_last_line_cannot_be_written(place: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    words = [sys.executable, "-m", "gpuprof", "compare", "base.ncu-rep", "new.ncu-rep", "--fail-on", "registers"]
    with full.open("w") as stderr:
        done = subprocess.run(words, cwd=place, stdout=subprocess.DEVNULL, stderr=stderr, check=False)
    assert done.returncode == 6


def test_json_of_a_file_whose_name_is_not_utf_8_is_read_by_strict_readers(place: Path) -> None:
    name = os.fsdecode(b"b\xff.ncu-rep")
    try:
        (place / "base.ncu-rep").rename(place / name)
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    done = compare(name, "new.ncu-rep", "--format", "json", cwd=place)
    decoded = msgspec.json.decode(done.stdout.encode(), type=Comparison)
    assert decoded.base.files == ("b\\udcff.ncu-rep",)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="nothing interrupts an expression here")
def test_an_expression_of_match_that_takes_too_long_is_given_up(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "LIMIT_S", 0.2)
    (place / "base.ncu-rep").write_bytes(report(name="a" * 60))
    done = compare("base.ncu-rep", "new.ncu-rep", "--match", "^(a+)+X$=sgemm", cwd=place)
    assert done.returncode == 2 and "--match: it takes longer than 0.2 s on the kernels' names" in done.stderr


@each_row("name", ["n" * 300, "n" * 200 + "/" + "n" * 300])
def test_an_output_that_cannot_be_written_is_named_and_no_other_is_left(place: Path, name: str) -> None:
    before = sorted(path.name for path in place.iterdir())
    done = compare("base.ncu-rep", "new.ncu-rep", "-o", "c.md", "-o", f"json={name}", cwd=place)
    assert done.returncode == 2 and done.stderr.startswith(f"error: cannot write {name[:200]}")
    assert sorted(path.name for path in place.iterdir()) == before
