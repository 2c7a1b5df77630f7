"""The shells complete commands, options, files that can be read and names of specs, at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuprof.cli.main import COMMANDS
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


@each_row(
    ("line", "offered"),
    [
        ("", list(COMMANDS)),
        ("ro", ["roofline"]),
        ("specs ", ["check", "list", "match", "show"]),
        ("--v", ["--version"]),
        ("show --sort l", ["launch"]),
        ("run --set ", ["times", "roofline", "diagnose", "full"]),
        ("run --survey n", ["nsys", "ncu", "<dir>"]),
        ("run --survey a", ["auto", "<dir>", "a.ncu-rep", "a.nsight-cuprof-report"]),
        ("show --spec h100-s", ["h100-sxm"]),
        ("show --spec ./m", ["<file>"]),
        ("show --kernel ", []),
        ("show --exclude ", []),
        ("show --explain ", []),
        ("show ~no-such-user/", ["<dir>"]),
        ("run --kernel -- ", ["<file>"]),
        ("roofline -- ", ["<file>"]),
        ("roofline --top 3 -- tr", ["<file>"]),
        ("roofline -- python tr", ["<file>"]),
        ("run ", ["<file>"]),
        ("run -- tr", ["<file>"]),
        ("compare --run -- ./a --- tr", ["<file>"]),
        ("check -o ", ["<file>"]),
        ("check --arch sm_9", ["sm_90"]),
        ("check --arch sm_80,sm_9", ["sm_80,sm_90"]),
    ],
)
def test_what_is_offered(line: str, offered: list[str], folder: Path) -> None:
    # Neither is in the way.
    (folder / "gpuprof.toml").write_text("broken", encoding="utf-8")
    (folder / "loop").unlink(missing_ok=True)
    (folder / "loop").symlink_to("loop")
    assert answers(f"gpuprof {line}", folder) == offered


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


@each_row("more", [{"COMP_CWORD": "x"}, {"COMP_CWORD": ""}, {}, {"_GPUPROF_COMPLETE": "tcsh_source"}])
def test_a_question_that_no_shell_asks_is_answered_by_silence(folder: Path, more: dict[str, str]) -> None:
    asking = {"_GPUPROF_COMPLETE": "bash_complete", "COMP_WORDS": "gpuprof "}
    done = gpuprof(cwd=folder, environ={**os.environ, **asking, **more})
    assert (done.returncode, done.stdout) == (1, "")
    for how in ("bash_source", "zsh_source", "fish_source"):
        assert "_gpuprof_completion" in asked("", folder, at=0, how=how).stdout


@pytest.mark.slow
@each_row("kind", [kind for kind in SHELLS if kind.place is not None], ids=lambda kind: kind.name)
def test_a_real_shell_completes(kind: Kind, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    with shell(kind, tmp_path / "home", folder) as on:
        for typed, completed in (
            ("roo", ["roofline"]),
            ("show --expl", ["show", "--explain"]),
            ("show --spec h100-s", ["show", "--spec", "h100-sxm"]),
            ("show a.ncu", ["show", "a.ncu-rep"]),
            ("show my", ["show", "my first report.ncu-repz"]),
            ("show it", ["show", "it's $HOME.csv"]),
            ("show runs/d", ["show", "runs/deep.sqlite"]),
            ("show not", ["show", "not"]),
            ("roofline -- train", ["roofline", "--", "train.py"]),
        ):
            assert on.line(f"gpuprof {typed}") == ["gpuprof", *completed]
        # zsh takes the slash back where no name follows it.
        assert on.line("gpuprof show ru") in (["gpuprof", "show", "runs/"], ["gpuprof", "show", "runs"])
        assert on.line("gpuprof run tra") in (["gpuprof", "run", "tra"], ["gpuprof", "run", "train.py"])


def test_an_answer_loads_nothing_heavy(folder: Path) -> None:
    line = "gpuprof show --spec h"
    environ = {**os.environ, "_GPUPROF_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "gpuprof"], env=environ, cwd=folder, check=True,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    imported = {name.rpartition("|")[2].strip() for name in done.stderr.splitlines()}
    assert "click.shell_completion" in imported
    assert not imported & {"numpy", "pandas", "rich", "matplotlib", "jinja2"}
