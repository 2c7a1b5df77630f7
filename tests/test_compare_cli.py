"""`gpuprof compare`: sides, the gate and its exit codes, what is written where; and two measured files.

The numbers here are made up.
"""

from __future__ import annotations

import json
import os
import signal
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gpuprof as package
from gpuprof.characterize.sheet.measured_text import measured_text
from gpuprof.cli import patience
from tests.cli import Done, gpuprof
from tests.ncu_bytes import simple_report
from tests.table import each_row
from tests.test_measured_ceilings import made_up

UPDATE = ("--update-baseline", "--fail-on", "registers")


def compare(*arguments: str, cwd: Path | None = None, stdin: str | None = None) -> Done:
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


@each_row(
    ("arguments", "code", "said"),
    [(("base.measured.yaml", "new.measured.yaml"), 0, "−10 %"),
     (("base.measured.yaml", "new.measured.yaml", "--format", "json"), 0, "765000000000"),
     (("base.measured.yaml", "report.ncu-rep"), 5, "report.ncu-rep"),
     (("base.ncu-rep", "new.measured.yaml"), 5, "base.ncu-rep"),
     (("base.measured.yaml", "new.measured.yaml", "--kernel", "gemm"), 2, "--kernel")],
)  # fmt: skip
def test_measured_files_are_compared_with_one_another_alone(
    files: tuple[str, str], place: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = compare(*arguments, cwd=place)
    assert done.returncode == code and said in (done.stderr if code else done.stdout), done.stderr
    assert "Traceback" not in done.stderr and (code == 0) == (done.stdout != "")


def report(instructions: float = 1e6, registers: float = 40.0, name: str = "sgemm", seconds: float = 1e-3) -> bytes:
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
    return done.stderr.splitlines()[-1]


@each_row(
    ("limits", "code"),
    [(["instructions:1%"], 6), (["registers"], 6), (["instructions:1%", "sgemm=instructions:25%"], 0), (["spills"], 0)],
)  # fmt: skip
def test_a_work_regression_is_exit_code_6(place: Path, limits: list[str], code: int) -> None:
    options = [word for limit in limits for word in ("--fail-on", limit)]
    done = compare("base.ncu-rep", "new.ncu-rep", *options, cwd=place)
    assert done.returncode == code, done.stderr
    assert last(done).startswith("gate failed: " if code else "gate passed")
    if code:
        assert compare("base.ncu-rep", "again.ncu-rep", *options, cwd=place).returncode == 0


def test_several_files_a_side_are_runs(place: Path) -> None:
    (place / "again.ncu-rep").write_bytes(report(1.0001e6))
    for arguments in (
        ("--base", "base.ncu-rep", "again.ncu-rep", "--new", "new.ncu-rep", "--fail-on", "registers"),
        ("--new=new.ncu-rep", "--base", "base.ncu-rep", "--base", "again.ncu-rep", "--fail-on", "registers"),
    ):
        done = compare(*arguments, "--format", "json", cwd=place)
        assert done.returncode == 6, done.stderr
        document = json.loads(done.stdout)
        assert document["base"]["files"] == ["base.ncu-rep", "again.ncu-rep"]
        assert document["new"]["files"] == ["new.ncu-rep"]


def test_nothing_is_replaced_without_leave_and_an_input_never(place: Path) -> None:
    (place / "c.md").write_text("mine")
    done = compare("base.ncu-rep", "new.ncu-rep", "-o", "c.md", "-o", "c.json", cwd=place)
    assert done.returncode == 2 and (place / "c.md").read_text() == "mine" and not (place / "c.json").exists()
    assert compare("base.ncu-rep", "new.ncu-rep", "-o", "c.md", "--force", cwd=place).returncode == 0
    assert (place / "c.md").read_text() != "mine"
    done = compare("base.ncu-rep", "new.ncu-rep", "-o", "md=new.ncu-rep", "--force", cwd=place)
    assert done.returncode == 2 and "new.ncu-rep" in done.stderr


def test_a_baseline_that_is_a_link_stays_one(place: Path) -> None:
    (place / "base.ncu-rep").rename(place / "stored.ncu-rep")
    (place / "base.ncu-rep").symlink_to("stored.ncu-rep")
    options = ("--update-baseline", "--fail-on", "instructions:50%")
    assert compare("base.ncu-rep", "new.ncu-rep", *options, cwd=place).returncode == 0
    assert (place / "base.ncu-rep").is_symlink()
    assert (place / "stored.ncu-rep").read_bytes() == (place / "new.ncu-rep").read_bytes()


def test_a_read_only_baseline_is_left_alone_and_others_keep_who_may_read_them(place: Path) -> None:
    options = ("base.ncu-rep", "new.ncu-rep", "--update-baseline", "--fail-on", "instructions:50%")
    before = (place / "base.ncu-rep").read_bytes()
    (place / "base.ncu-rep").chmod(0o400)
    done = compare(*options, "--force", cwd=place)
    assert done.returncode == 2 and "chmod u+w base.ncu-rep" in done.stderr
    assert (place / "base.ncu-rep").read_bytes() == before
    (place / "base.ncu-rep").chmod(0o600)
    assert compare(*options, cwd=place).returncode == 0
    assert (place / "base.ncu-rep").read_bytes() != before
    assert (place / "base.ncu-rep").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="nothing interrupts an expression here")
def test_an_expression_of_match_that_takes_too_long_is_given_up(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "LIMIT_S", 0.2)
    (place / "base.ncu-rep").write_bytes(report(name="a" * 60))
    done = compare("base.ncu-rep", "new.ncu-rep", "--match", "^(a+)+X$=sgemm", cwd=place)
    assert done.returncode == 2 and "--match" in done.stderr and "0.2 s" in done.stderr


def test_a_session_on_standard_input_is_a_side(place: Path) -> None:
    (place / "gpuprof.toml").write_text('[compare]\nunclear = "fail"\n')  # waits for limits
    assert compare("base.ncu-rep", "new.ncu-rep", cwd=place).returncode == 0
    text = gpuprof("show", "--format", "json", "base.ncu-rep", cwd=place).stdout
    for other, code in (("new.ncu-rep", 6), ("again.ncu-rep", 0)):
        assert compare("-", other, "--fail-on", "registers", cwd=place, stdin=text).returncode == code


def test_what_is_unclear_or_missing_fails_where_it_is_to(place: Path) -> None:
    options = ("base.ncu-rep", "again.ncu-rep", "--fail-on", "spills", "--format", "json")
    for unclear, code in (((), 0), (("--unclear", "fail"), 7)):
        done = compare(*options, *unclear, cwd=place)
        gate = json.loads(done.stdout)["gate"]
        assert (done.returncode, gate["exit_code"], gate["ok"]) == (code, code, 0)
        assert [check["word"] for check in gate["checks"]] == ["not-compared"] * 2
    assert "spills" in last(done)


def test_sides_with_nothing_to_compare_cannot_pass_a_gate(place: Path) -> None:
    (place / "empty.ncu-rep").write_bytes(simple_report([]))
    (place / "other.ncu-rep").write_bytes(simple_report([("entirely_other", {"gpu__time_duration.sum": 1e-3})]))
    for arguments in (("base.ncu-rep", "empty.ncu-rep"), ("empty.ncu-rep", "base.ncu-rep")):
        done = compare(*arguments, "-o", "out.md", cwd=place)
        assert (done.returncode, done.stdout) == (5, "") and "empty.ncu-rep" in done.stderr
        assert not (place / "out.md").exists()
    assert compare("base.ncu-rep", "other.ncu-rep", cwd=place).returncode == 0
    done = compare("base.ncu-rep", "other.ncu-rep", "--fail-on", "time:3%", cwd=place)
    assert (done.returncode, done.stdout) == (5, "")
    matched = compare("base.ncu-rep", "other.ncu-rep", "--match", "sgemm=entirely_other", cwd=place)
    assert matched.returncode == 0 and "entirely_other" in matched.stdout


def test_every_format_is_written_at_once_before_the_exit_code_or_printed(place: Path) -> None:
    names = ("c.html", "c.json", "c.md", "c.xml", "c.sarif", "gitlab=quality.json")
    options = [word for name in names for word in ("-o", name)]
    done = compare("base.ncu-rep", "new.ncu-rep", "--fail-on", "registers", *options, cwd=place)
    assert done.returncode == 6
    assert json.loads((place / "c.json").read_text())["gate"]["exit_code"] == 6
    assert json.loads((place / "c.sarif").read_text())["version"] == "2.1.0"
    assert isinstance(json.loads((place / "quality.json").read_text()), list)
    assert ET.parse(place / "c.xml").getroot().tag in ("testsuites", "testsuite")
    assert "sgemm" in (place / "c.md").read_text()
    assert (place / "c.html").read_text().lower().startswith("<!doctype html>")
    for form in ("json", "md", "junit", "sarif", "github", "gitlab"):
        done = compare("base.ncu-rep", "new.ncu-rep", "--format", form, "--fail-on", "registers", cwd=place)
        assert done.returncode == 6 and done.stdout
        assert last(done).startswith("gate failed: ") and "40 → 72" in last(done)


def test_hostile_names_steer_no_terminal(place: Path) -> None:
    name = "a\x1b[31m\u202e<script>" + "x" * 15_000
    (place / "base.ncu-rep").write_bytes(report(name=name))
    (place / "new.ncu-rep").write_bytes(report(2e6, name=name))
    for options in (("-v",), ("--format", "github"), ("--kernel", "script")):
        done = compare("base.ncu-rep", "new.ncu-rep", "--fail-on", "instructions", *options, cwd=place)
        assert done.returncode == 6, done.stderr
        assert not {"\x1b", "\u202e"} & set(done.stdout + done.stderr)
        assert len(last(done)) < 300


def test_an_accepted_regression_passes_until_its_day(place: Path) -> None:
    entry = "[[accepted]]\nkernel = 'sgemm'\nlimit = 'registers'\nreason = 'Twice the tile.'\nuntil = {}\n"
    options = ("base.ncu-rep", "new.ncu-rep", "--fail-on", "registers", "--accept", "accepted.toml")
    for text, code, told in (
        (entry.format("9999-12-31"), 0, "1 accepted"),
        (entry.format("2020-02-29"), 6, "2020-02-29"),
        ("\n\n" + entry.format("'soon'"), 5, "accepted.toml:3: "),
    ):
        (place / "accepted.toml").write_text(text)
        done = compare(*options, "--format", "json", cwd=place)
        assert done.returncode == code and told in done.stderr
        if code == 0:
            (check,) = json.loads(done.stdout)["gate"]["checks"]
            assert (check["word"], check["accepted"]) == ("accepted", "Twice the tile.")


@each_row(
    ("instructions", "options", "code", "replaced"),
    [
        (1.005e6, ("--fail-on", "instructions"), 6, False),
        (1.2e6, ("--fail-on", "instructions", "--force"), 6, True),
        (1.2e6, ("--fail-on", "spills"), 0, False),  # no limit could be judged
    ],
)
def test_the_baseline_is_replaced_where_the_gate_passes_or_by_force(
    place: Path, instructions: float, options: tuple[str, ...], code: int, replaced: bool
) -> None:
    (place / "base.ncu-rep").write_bytes(report())
    (place / "new.ncu-rep").write_bytes(report(instructions))
    before = sorted(path.name for path in place.iterdir())
    done = compare("base.ncu-rep", "new.ncu-rep", "--update-baseline", *options, cwd=place)
    assert done.returncode == code and "base.ncu-rep" in done.stderr
    assert ((place / "base.ncu-rep").read_bytes() == (place / "new.ncu-rep").read_bytes()) == replaced
    assert sorted(path.name for path in place.iterdir()) == before


@each_row(
    ("arguments", "code", "told"),
    [(("base.ncu-rep", "new.ncu-rep", "again.ncu-rep"), 2, ""), (("--base", "--new", "new.ncu-rep"), 2, "--base"),
     (("base.ncu-rep", "--base", "again.ncu-rep", "--new", "new.ncu-rep"), 2, "--base"),
     (("base.ncu-rep", "new.ncu-rep", "--accept", "accepted.toml"), 2, "--accept"),
     (("base.ncu-rep", "new.ncu-rep", "--fail-on", "registers", "--accept", "none.toml"), 5, "none.toml"),
     (("base.ncu-rep", "new.ncu-rep", "-o", f"json={'n' * 200}/{'n' * 300}"), 2, "n" * 200),
     ((*UPDATE, "base.ncu-rep", "new.ncu-rep", "--kernel", "copy"), 2, "--kernel"),
     ((*UPDATE, "base.ncu-rep", "base.ncu-rep"), 2, "same file"),
     ((*UPDATE, "base.ncu-rep", "s.json"), 2, "base.ncu-rep"),
     ((*UPDATE, "--base", "base.ncu-rep", "again.ncu-rep", "--new", "new.ncu-rep"), 2, "2 and 1")],
)  # fmt: skip
def test_a_gate_that_would_pass_anything_or_what_cannot_be_written_is_a_wrong_command_line(
    place: Path, arguments: tuple[str, ...], code: int, told: str
) -> None:
    for name, text in (("s.json", "{}"), ("accepted.toml", "")):
        (place / name).write_text(text)
    before = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
    done = compare(*arguments, cwd=place)
    assert (done.returncode, done.stdout) == (code, "") and told in done.stderr, done.stderr
    assert {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()} == before


def test_python_compares_and_refuses_as_the_command_does(place: Path) -> None:
    base, new = place / "base.ncu-rep", place / "new.ncu-rep"
    compared = package.compare(base, [new], fail_on=["registers", "spills"], unclear="fail")
    assert compared.comparison.gate is not None and compared.comparison.gate.exit_code == 6
    assert package.compare(base, new).comparison.gate is None
    alone = package.compare(base, new, kernel="copy", fail_on=["registers"]).comparison
    assert alone.gate is not None and alone.gate.passed and len(alone.kernels) == 1
    wrong: dict[str, dict[str, Any]] = {
        "fail_on": {"fail_on": ["time:3"]}, "unclear": {"unclear": "perhaps"}, "--kernel": {"kernel": "nope"}
    }  # fmt: skip
    for told, options in wrong.items():
        with pytest.raises(package.errors.UsageError) as caught:
            package.compare(base, new, **options)
        assert told in caught.value.message


def test_a_gate_that_fails_does_so_although_the_reader_of_the_pipe_has_gone(place: Path) -> None:
    for form, limit, code in (("table", "registers", 6), ("json", "registers", 6), ("md", "registers:100%", 141)):
        reads, writes = os.pipe()
        os.close(reads)
        try:
            arguments = ("compare", "base.ncu-rep", "new.ncu-rep", "--fail-on", limit, "--format", form)
            done = gpuprof(*arguments, cwd=place, onto={1: writes})
        finally:
            os.close(writes)
        assert done.returncode == code and "Traceback" not in done.stderr
        assert ("gate failed" in done.stderr) == (code == 6)
