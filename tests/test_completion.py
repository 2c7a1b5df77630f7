"""The shells complete commands, options, files that can be read and names of specs, at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from gpuprof.cli.main import COMMANDS, cli
from gpuprof.hardware.library import SpecLibrary
from gpuprof.read.readers import KINDS, Readable
from tests.cli import Done, gpuprof
from tests.shells import KINDS as SHELLS
from tests.shells import Kind, shell
from tests.table import each_row


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files of many names."""
    here = tmp_path / "here"
    (here / "runs").mkdir(parents=True)
    for name in (
        "a.ncu-rep", "my first report.ncu-repz", "it's $HOME.csv", "notes.txt", "train.py", ".hidden.json",
        "runs/deep.sqlite", "runs/deep.log", "a.nsight-cuprof-report", "trace.json.gz", "ü.html", "-dash.csv",
    ):  # fmt: skip
        (here / name).touch()
    return here


def asked(line: str, folder: Path, *, at: int | None = None, how: str = "bash_complete") -> Done:
    """Ask as bash does; the word to complete is the last one, or that at a place."""
    count = len(line.split()) - (0 if line.endswith(" ") else 1)
    environ = {
        **os.environ,
        "_GPUPROF_COMPLETE": how,
        "COMP_WORDS": line,
        "COMP_CWORD": str(count if at is None else at),
    }
    done = gpuprof(cwd=folder, environ=environ)
    assert (done.returncode, done.stderr) == (0, "")
    return done


def answers(line: str, folder: Path) -> list[str]:
    """The words that are offered; a kind of file or folder as in `<dir>`."""
    rows = [row.split(",", 1) for row in asked(line, folder).stdout.splitlines() if row]
    return [value if kind == "plain" else f"<{kind}>" for kind, value in rows]


def test_commands_are_completed(folder: Path) -> None:
    assert answers("gpuprof ", folder) == list(COMMANDS)
    assert answers("gpuprof ro", folder) == ["roofline"]
    assert answers("gpuprof specs ", folder) == ["check", "list", "match", "show"]
    assert answers("gpuprof --v", folder) == ["--version"]


@each_row("command", ["show", "report", "roofline", "run", "demo", "characterize", "compare", "check", "doctor"])
def test_every_option_is_completed(command: str, folder: Path) -> None:
    known = cli.get_command(click.Context(cli), command)
    assert known is not None
    options = [name for param in _shown(known) for name in param.opts if name.startswith("--")]
    assert {*options, "--help"} <= set(answers(f"gpuprof {command} --", folder))


def _shown(command: click.Command) -> list[click.Parameter]:
    """The options that its help has; those that are also taken by ncu's names are not offered twice."""
    return [param for param in command.params if not getattr(param, "hidden", False)]


def test_the_words_of_an_option_are_completed(folder: Path) -> None:
    assert answers("gpuprof show --sort l", folder) == ["launch"]
    assert answers("gpuprof run --set ", folder) == ["times", "roofline", "diagnose", "full"]


@each_row("command", ["show", "report", "roofline", "demo", "specs match"])
def test_files_that_can_be_read_are_completed_and_folders(command: str, folder: Path) -> None:
    assert answers(f"gpuprof {command} ", folder) == [
        "<dir>", "-dash.csv", "a.ncu-rep", "a.nsight-cuprof-report", "it's $HOME.csv", "my first report.ncu-repz",
        "trace.json.gz", "ü.html",
    ]  # fmt: skip
    assert answers(f"gpuprof {command} runs/d", folder) == ["<dir>", "runs/deep.sqlite"]
    assert answers(f"gpuprof {command} .h", folder) == ["<dir>", ".hidden.json"]
    assert answers(f"gpuprof {command} none/", folder) == ["<dir>"]
    assert answers(f"gpuprof {command} {folder}/a.", folder)[1:] == [
        f"{folder}/a.ncu-rep", f"{folder}/a.nsight-cuprof-report",
    ]  # fmt: skip


@each_row("before", ["", "--base ", "--base a.ncu-rep --new ", "--base=a.ncu-rep --new "])
def test_both_sides_of_a_comparison_are_completed_with_measured_files_too(before: str, folder: Path) -> None:
    (folder / "a.measured.yaml").touch()
    listed = ["<dir>", "a.ncu-rep", "a.nsight-cuprof-report", "a.measured.yaml"]
    assert answers(f"gpuprof compare {before}a", folder) == listed


def test_files_with_code_are_completed_for_a_check(folder: Path) -> None:
    for name in ("k.cu", "k.PTX", "k.cubin", "k.fatbin", "libk.so", "libk.a", "k.o", "k.txt"):
        (folder / name).touch()
    assert answers("gpuprof check ", folder) == [
        "<dir>", "a.ncu-rep", "k.PTX", "k.cu", "k.cubin", "k.fatbin", "k.o", "libk.a", "libk.so",
        "my first report.ncu-repz",
    ]  # fmt: skip
    assert answers("gpuprof check -o ", folder) == ["<file>"]
    assert answers("gpuprof check --arch sm_9", folder) == ["sm_90"]
    assert answers("gpuprof check --arch sm_80,sm_9", folder) == ["sm_80,sm_90"]


def test_every_ending_that_can_be_read_is_completed(tmp_path: Path) -> None:
    names = sorted({f"x{suffix}" for kind in KINDS if isinstance(kind, Readable) for suffix in kind.suffixes})
    for name in names:
        (tmp_path / name).touch()
    assert answers("gpuprof show x", tmp_path)[1:] == names


def test_a_name_that_would_break_the_answer_is_left_out(tmp_path: Path) -> None:
    for name in ("a\nb.csv", "a\x1b[31m.csv", "a,b.csv"):
        (tmp_path / name).touch()
    assert answers("gpuprof show a", tmp_path) == ["<dir>", "a,b.csv"]


@each_row(
    "line",
    [
        "roofline -- ",
        "roofline --top 3 -- tr",
        "roofline -- python tr",
        "run ",
        "run -- tr",
        "compare --run -- ./a --- tr",
    ],
)
def test_programs_are_any_files(line: str, folder: Path) -> None:
    assert answers(f"gpuprof {line}", folder) == ["<file>"]


def test_names_of_specs_are_completed(folder: Path) -> None:
    names = sorted({path.stem for path in SpecLibrary().gpu_files()})
    assert len(names) > 10
    for line in ("show --spec ", "run --spec ", "specs show "):
        assert answers(f"gpuprof {line}", folder) == names
    assert answers("gpuprof show --spec h100-s", folder) == ["h100-sxm"]
    assert answers("gpuprof show --spec ./m", folder) == ["<file>"]


def test_a_survey_is_a_tool_or_a_file(folder: Path) -> None:
    assert answers("gpuprof run --survey n", folder) == ["nsys", "ncu", "<dir>"]
    assert answers("gpuprof run --survey a", folder) == ["auto", "<dir>", "a.ncu-rep", "a.nsight-cuprof-report"]


def test_kernels_are_not_completed(folder: Path) -> None:
    for option in ("--kernel", "--exclude", "--explain"):
        assert answers(f"gpuprof show {option} ", folder) == []


def test_a_broken_configuration_is_not_in_the_way(folder: Path) -> None:
    (folder / "gpuprof.toml").write_text("broken", encoding="utf-8")
    assert "--spec" in answers("gpuprof show --sp", folder)


def test_a_link_to_itself_is_not_in_the_way(folder: Path) -> None:
    (folder / "loop").symlink_to("loop")
    assert "a.ncu-rep" in answers("gpuprof show ", folder)


def test_a_home_that_does_not_exist_has_no_files(folder: Path) -> None:
    assert answers("gpuprof show ~no-such-user/", folder) == ["<dir>"]


def test_a_line_that_is_not_finished_is_not_judged(folder: Path) -> None:
    assert answers("gpuprof run --kernel -- ", folder) == ["<file>"]


@each_row("place", ["x", "", None])
def test_a_question_that_no_shell_asks_is_answered_by_silence(folder: Path, place: str | None) -> None:
    environ = {**os.environ, "_GPUPROF_COMPLETE": "bash_complete", "COMP_WORDS": "gpuprof "}
    done = gpuprof(cwd=folder, environ=environ if place is None else {**environ, "COMP_CWORD": place})
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


@each_row("how", ["bash_source", "zsh_source", "fish_source"])
def test_what_a_shell_is_told_defines_a_function(how: str, folder: Path) -> None:
    assert "_gpuprof_completion" in asked("", folder, at=0, how=how).stdout


def test_an_unknown_shell_is_an_error(folder: Path) -> None:
    environ = {**os.environ, "_GPUPROF_COMPLETE": "tcsh_source"}
    done = gpuprof(cwd=folder, environ=environ)
    assert (done.returncode, done.stdout) == (1, "")


@each_row("kind", SHELLS, ids=lambda kind: kind.name)
def test_a_real_shell_completes(kind: Kind, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind.place is None:
        pytest.skip(f"{kind.name} is not installed")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    with shell(kind, tmp_path / "home", folder) as on:
        assert on.line("gpuprof roo") == ["gpuprof", "roofline"]
        assert on.line("gpuprof show --expl") == ["gpuprof", "show", "--explain"]
        assert on.line("gpuprof show --spec h100-s") == ["gpuprof", "show", "--spec", "h100-sxm"]
        assert on.line("gpuprof show a.ncu") == ["gpuprof", "show", "a.ncu-rep"]
        assert on.line("gpuprof show my") == ["gpuprof", "show", "my first report.ncu-repz"]
        assert on.line("gpuprof show it") == ["gpuprof", "show", "it's $HOME.csv"]
        # zsh takes the slash back where no name follows it.
        assert on.line("gpuprof show ru") in (["gpuprof", "show", "runs/"], ["gpuprof", "show", "runs"])
        assert on.line("gpuprof show runs/d") == ["gpuprof", "show", "runs/deep.sqlite"]
        assert on.line("gpuprof show not") == ["gpuprof", "show", "not"]
        assert on.line("gpuprof run tra") in (["gpuprof", "run", "tra"], ["gpuprof", "run", "train.py"])
        assert on.line("gpuprof roofline -- train") == ["gpuprof", "roofline", "--", "train.py"]


@each_row("line", ["gpuprof ", "gpuprof show --", "gpuprof roofline ", "gpuprof show --spec h"])
def test_an_answer_loads_nothing_heavy(line: str, folder: Path) -> None:
    count = len(line.split()) - (0 if line.endswith(" ") else 1)
    environ = {**os.environ, "_GPUPROF_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(count)}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "gpuprof"], env=environ, cwd=folder, check=True,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    imported = {name.rpartition("|")[2].strip() for name in done.stderr.splitlines()}
    assert "click.shell_completion" in imported
    assert not imported & {"numpy", "pandas", "rich", "matplotlib", "jinja2"}
