"""What people type wrongly: programs without --, files without a command, names of other tools, options of ncu."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from gpuprof.cli.main import COMMANDS, cli
from gpuprof.cli.ncu_options import OF_PROFILING, OF_READING, OF_VALUES
from gpuprof.cli.output import write_files
from gpuprof.cli.profiling import expression_of
from gpuprof.collect.choices import KernelBase
from gpuprof.collect.plan import Seen, make_plan
from gpuprof.errors import UsageError
from gpuprof.own_files import draft_of
from gpuprof.read import plain_file
from gpuprof.read.recognise import recognised
from tests.cli import GPUPROF, Done, gpuprof
from tests.ncu_bytes import A100, simple_report
from tests.table import each_row
from tests.test_run import STANDIN, value_after

NCU_OPTIONS = Path(__file__).parent / "data" / "ncu_options.txt"
"""The options that ncu 2024.1 lists."""
CSV_HEADER = '"ID","Process ID","Process Name","Host Name","Kernel Name"\n'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder as people have them: a report, programs, and what is neither."""
    (tmp_path / "a.ncu-rep").write_bytes(simple_report([("sgemm", A100)]))
    shutil.copy("/bin/true", tmp_path / "app")
    shutil.copy("/bin/true", tmp_path / "noexec")
    (tmp_path / "noexec").chmod(0o644)
    for name in ("empty", "empty.py", "empty.ncu-rep"):
        (tmp_path / name).touch(0o755)
    (tmp_path / "train.py").write_text("print('trained')\n")
    (tmp_path / "notes.txt").write_text("text\n")
    (tmp_path / "k.cu").write_text("__global__ void k() {}\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop.py").symlink_to("loop.py")
    return tmp_path


def environ(**more: str) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "COLUMNS": "80", **more}


def typed(place: Path, *arguments: str) -> Done:
    """Type a command line in the folder."""
    return gpuprof(*arguments, cwd=place, environ=environ())


def error_and_hint(done: Done) -> tuple[str, str]:
    """The error and the hint, each after its word; nothing else is printed, and the command line is at fault."""
    assert done.returncode == 2 and done.stdout == ""
    message, *rest = done.stderr.splitlines()
    assert message.startswith("error: ")
    hints = [line for line in rest if not line.startswith("usage: ")]
    assert len(hints) <= 1 and all(line.startswith("hint: ") for line in hints)
    return message.removeprefix("error: "), "".join(hints).removeprefix("hint: ")


def dry(place: Path, *arguments: str) -> list[str]:
    """The last command of a dry run, as words."""
    done = typed(place, arguments[0], "--dry-run", "--ncu", str(STANDIN), *arguments[1:])
    assert done.returncode == 0, done.stderr

    return shlex.split(done.stdout.splitlines()[-1])


# Programs without --


@each_row("command", ["run", "roofline"])
@each_row(
    ("options", "program"),
    [
        ((), ("train.py", "--epochs", "3")),
        ((), ("./app",)),
        (("--set", "full"), ("./app", "--size", "4")),
        ((), ("python3", "train.py", "--top", "1")),
        ((), ("sh", "-c", "exit")),
        (("--",), ("./app", "--", "more")),
    ],
)
def test_a_program_needs_no_dashes_and_keeps_what_follows_it(
    place: Path, command: str, options: tuple[str, ...], program: tuple[str, ...]
) -> None:
    argv = dry(place, command, *options, *program)
    assert argv[-len(program) + 1 :] == list(program[1:]) or len(program) == 1
    assert program[0].removeprefix("./") in {Path(word).name for word in argv[-len(program) :]}


def test_files_have_options_behind_them(place: Path) -> None:
    shutil.copy(place / "a.ncu-rep", place / "b.ncu-rep")
    done = typed(place, "roofline", "a.ncu-rep", "b.ncu-rep", "--format", "json")
    assert done.returncode == 0 and json.loads(done.stdout)["figures"]


def test_a_report_that_may_be_executed_and_has_another_name_is_a_report(place: Path) -> None:
    # On file systems of Windows every file may be executed.
    (place / "a.ncu-rep").rename(place / "result")
    (place / "result").chmod(0o755)
    assert typed(place, "roofline", "result", "--format", "json").returncode == 0
    assert typed(place, "./result").returncode == 0


def test_an_option_of_ours_that_goes_to_the_program_is_named(place: Path) -> None:
    options = ("run", "--dry-run", "--ncu", str(STANDIN))
    passed = typed(place, *options, "./app", "--set", "full")
    assert passed.stderr == "note: --set is passed to ./app; options of gpuprof stand before the program\n"
    assert typed(place, *options, "--", "./app", "--set", "full").stderr == ""
    assert typed(place, *options, "./app", "--size", "4").stderr == ""


def test_options_about_a_program_are_not_ignored_for_reports(place: Path) -> None:
    message, _ = error_and_hint(typed(place, "roofline", "a.ncu-rep", "--coverage", "50"))
    assert message == "--coverage is about profiling a program, and only files were named"
    _, hint = error_and_hint(typed(place, "roofline", "a.ncu-rep", "-k", "gemm"))
    assert hint == "--kernel REGEX picks kernels of a report"
    message, _ = error_and_hint(typed(place, "roofline", "--salvage", "./app"))
    assert message == "--salvage is about reports, and a program was named"


# No command


def test_a_file_without_a_command_is_shown(place: Path) -> None:
    shown = typed(place, "show", "a.ncu-rep", "--format", "csv")
    assert shown.returncode == 0
    assert typed(place, "a.ncu-rep", "--format", "csv").stdout == shown.stdout
    missing = typed(place, "b.ncu-rep")
    assert missing.returncode == 5 and missing.stderr.startswith("error: b.ncu-rep: no such file\n")


@each_row(
    ("line", "message", "hint"),
    [
        ("./app --size 4", "./app is a program, not a command", "gpuprof run -- ./app --size 4"),
        ("app", "app is a program, not a command", "gpuprof run -- ./app"),
        ("train.py --lr 3", "train.py is a Python script, not a command", "gpuprof run -- train.py --lr 3"),
        ("python3 train.py", "python3 is a program, not a command", "gpuprof run -- python3 train.py"),
        ("trian.py", "trian.py: no such file", "did you mean train.py?"),
        ("k.cu", "./k.cu is source code", "compile it first: nvcc -lineinfo -o k ./k.cu"),
        ("noexec", "./noexec is not executable", "chmod +x ./noexec"),
        ("folder", "folder is a folder", "name the reports in it: gpuprof show folder/*.ncu-rep*"),
        ("notes.txt", "notes.txt is neither a command nor a file that gpuprof reads", None),
        ("shwo a.ncu-rep", "gpuprof has no command shwo", "did you mean: gpuprof show a.ncu-rep"),
        ("analyze a.ncu-rep", "gpuprof has no command analyze", "did you mean: gpuprof show a.ncu-rep"),
        ("analyze ./app", "gpuprof has no command analyze", "did you mean: gpuprof run -- ./app"),
        ("profile ./app 1", "gpuprof has no command profile", "did you mean: gpuprof run -- ./app 1"),
        ("profile", "gpuprof has no command profile", "did you mean: gpuprof run -- ./app"),
        ("profile a.ncu-rep", "gpuprof has no command profile", "did you mean: gpuprof show a.ncu-rep"),
        ("ncu --set full ./app", "gpuprof has no command ncu", "did you mean: gpuprof run --set full ./app"),
        ("nsys profile ./app", "gpuprof has no command nsys", "did you mean: gpuprof run -- ./app"),
        ("view a.ncu-rep", "gpuprof has no command view", "did you mean: gpuprof show a.ncu-rep"),
        ("list", "gpuprof has no command list", "did you mean: gpuprof show"),
        ("html a.ncu-rep", "gpuprof has no command html", "did you mean: gpuprof report a.ncu-rep"),
        ("plot a.ncu-rep", "gpuprof has no command plot", "did you mean: gpuprof roofline a.ncu-rep"),
        (
            "diff a.measured.yaml b.measured.yaml",
            "gpuprof has no command diff",
            "did you mean: gpuprof compare a.measured.yaml b.measured.yaml",
        ),
        ("diff a.json b.ncu-rep", "gpuprof has no command diff", "did you mean: gpuprof compare a.json b.ncu-rep"),
        ("cmp a.json b.json", "gpuprof has no command cmp", "did you mean: gpuprof compare a.json b.json"),
        ("help run", "gpuprof has no command help", "did you mean: gpuprof run --help"),
        ("qqq", "gpuprof has no command qqq", "gpuprof --help lists the commands"),
        ("-i a.ncu-rep", "gpuprof has no option -i", "gpuprof show a.ncu-rep"),
        ("--sort time a.ncu-rep", "gpuprof has no option --sort", "options follow the command: gpuprof show --sort"),
        ("specs lst", "gpuprof specs has no command lst", "did you mean: gpuprof specs list"),
    ],
)  # fmt: skip
def test_a_first_word_that_is_no_command_is_answered_with_a_line_to_type(
    place: Path, line: str, message: str, hint: str | None
) -> None:
    said = error_and_hint(typed(place, *line.split()))
    assert said == (message, hint if hint is not None else said[1])


def test_gpuprof_alone_says_what_to_type_first(place: Path) -> None:
    done = typed(place)
    assert (done.returncode, done.stderr) == (0, "")
    start = done.stdout.index("Start here:")
    for line in ("gpuprof demo ", "gpuprof show report.ncu-rep ", "gpuprof run -- ./app "):
        assert start < done.stdout.index(line) < done.stdout.index("Options:")
    assert done.stdout == typed(place, "--help").stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@each_row("name", ["run", "show", "roofline", "report", "compare", "check"])
def test_help_ends_with_examples_that_can_be_typed(place: Path, name: str) -> None:
    text = typed(place, name, "--help").stdout
    examples = re.findall(r"^  (gpuprof .*)$", text.partition("\nExamples:\n")[2], re.MULTILINE)
    assert 2 <= len(examples) <= 3 and text.endswith(f"  {examples[-1]}\n")
    assert all(line.startswith(f"gpuprof {name} ") and len(line) <= 78 for line in examples)


# Files for programs, and programs for files


@each_row(
    ("name", "content", "what"),
    [
        ("a.ncu-rep", None, "an ncu report"),
        ("kernels", CSV_HEADER, "an ncu CSV"),
        ("log", f"step 1\nstep 2\n{CSV_HEADER}", "an ncu CSV"),
        ("trace.json", '{"traceEvents": []}', "a trace"),
        ("session.json", '{"schema_version": 1}', "a gpuprof session"),
        ("t.nsys-rep", "NSYS", "an Nsight Systems report"),
        ("x.measured.yaml", "gpu: a\n", "a measured file"),
    ],
)
def test_a_file_to_read_is_not_run(place: Path, name: str, content: str | None, what: str) -> None:
    if content is not None:
        (place / name).write_text(content)
    said = error_and_hint(typed(place, "run", name, "--more"))
    assert said == (f"{name} is {what}, not a program", f"gpuprof show {name}")


@each_row("content", ['#!/bin/sh\necho \'"ID","Process ID"\'\n', "\x7fELF\0\0", "text", "{}", "[1]", ""])
def test_what_may_be_a_program_is_not_taken_for_a_file_to_read(tmp_path: Path, content: str) -> None:
    file = tmp_path / "file"
    file.write_text(content)
    assert recognised(str(file)) is None


def test_real_reports_are_recognised_by_their_content(reports: Path, tmp_path: Path) -> None:
    names = [file for file in sorted(reports.iterdir()) if file.suffix == ".ncu-rep"]
    for index, file in enumerate(names):
        (tmp_path / str(index)).symlink_to(file)
        assert recognised(str(tmp_path / str(index))) == "an ncu report"
    assert names


@each_row(("name", "what"), [("./app", "a program"), ("train.py", "a Python script")])
def test_a_program_is_not_read(place: Path, name: str, what: str) -> None:
    done = typed(place, "show", name)
    assert done.returncode == 5 and done.stderr.startswith(f"error: {name} is {what}, not a report\n")


@each_row(
    ("word", "message", "hint"),
    [
        ("./nope", "./nope: no such file", ""),
        ("./ap", "./ap: no such file", "did you mean ./app?"),
        ("no/app", "no/app: no such file", "the folder no does not exist"),
        ("./noexec", "./noexec is not executable", "chmod +x ./noexec"),
        ("./empty", "./empty is empty", "build it again"),
        ("empty.py", "empty.py is empty", "save it first"),
        ("./folder", "./folder is a folder", "name the program in it: gpuprof run -- ./app"),
        ("./dangling", "./dangling links to a file that does not exist", "build it again"),
        ("./notes.txt", "./notes.txt is not a program", "name one: gpuprof run -- ./app"),
        ("./k.cu", "./k.cu is source code", "compile it first: nvcc -lineinfo -o k ./k.cu"),
        ("trian.py", "trian.py: no such file", "did you mean train.py?"),
        ("loop.py", "loop.py cannot be read: too many levels of symbolic links", ""),
        ("app", "app: not found on PATH", "there is one in this folder: gpuprof run -- ./app"),
        ("qqq", "qqq: not found on PATH", "name a program outside of PATH with its folder: gpuprof run -- ./app"),
        ("ncu", "ncu is a profiler; gpuprof starts ncu itself", "name the program alone: gpuprof run -- ./app"),
        ("", "the program is an empty word", "name it: gpuprof run -- ./app"),
    ],
)
@each_row("dry_run", [False, True])
def test_what_is_wrong_with_a_program_is_said(place: Path, word: str, message: str, hint: str, dry_run: bool) -> None:
    options = ("--dry-run",) * dry_run
    assert error_and_hint(typed(place, "run", *options, "--", word)) == (message, hint)


def test_a_program_in_a_closed_folder_is_not_called_missing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "lstat", closed)
    for name in ("folder/app", "folder/train.py"):
        message, _ = error_and_hint(typed(place, "run", name))
        assert message == f"{name}: permission denied"


@each_row(
    ("name", "message"),
    [
        ("b.ncu-rep", "b.ncu-rep: no such file"),
        ("folder", "folder is a folder"),
        ("empty.ncu-rep", "empty.ncu-rep is empty"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_the_same_words(place: Path, name: str, message: str) -> None:
    done = typed(place, "show", name)
    assert done.returncode == 5 and done.stderr.startswith(f"error: {message}\nhint: ")


# Options of ncu


def test_options_are_taken_by_ncus_names(place: Path) -> None:
    argv = dry(
        place, "run", "-k", "regex:^gemm", "-s", "3", "-c", "2", "--nvtx", "--nvtx-include", "step/",
        "--target-processes", "all", "--replay-mode", "application", "--graph-profiling", "node",
        "--clock-control", "base", "-f", "./app",
    )  # fmt: skip
    assert value_after(argv, "--kernel-name") == "regex:^gemm"
    assert value_after(argv, "--kernel-name-base") == "function"
    assert (value_after(argv, "--launch-skip"), value_after(argv, "--launch-count")) == ("3", "2")
    assert value_after(argv, "--nvtx-include") == "step/"
    assert value_after(argv, "--replay-mode") == "application"
    assert value_after(argv, "--clock-control") == "base"


@each_row(
    ("options", "expression", "base"),
    [
        (("--kernel-name", "gemm"), "regex:^gemm$", "function"),
        (("-k", "regex:gemm"), "regex:gemm", "function"),
        (("-k", "f(int)", "--kernel-name-base", "demangled"), r"regex:^f\(int\)$", "demangled"),
        (("--kernel", "gemm"), "regex:gemm", "demangled"),
    ],
)
def test_ncus_way_to_name_kernels_means_what_it_means_to_ncu(
    place: Path, options: tuple[str, ...], expression: str, base: str
) -> None:
    argv = dry(place, "run", "-c", "1", *options, "./app")
    assert (value_after(argv, "--kernel-name"), value_after(argv, "--kernel-name-base")) == (expression, base)


@each_row(
    ("base", "names"), [("function", ["void ns::gemm<float>(int)"]), ("demangled", ["gemm"])]
)  # fmt: skip
def test_the_functions_own_name_is_compared_in_a_plan_too(base: KernelBase, names: list[str]) -> None:
    launches = [
        Seen(symbol=None, demangled=name, grid=(1, 1, 1), block=(32, 1, 1), duration_s=1.0)
        for name in ("void ns::gemm<float>(int)", "void other<gemm>(int)", "gemm")
    ]
    plan = make_plan(launches, coverage=1.0, pattern=re.compile("^gemm$"), base=base)
    assert {kernel.demangled for kernel in plan.kernels} == {*names, "gemm"}


@each_row(
    ("options", "message"),
    [
        (("--section", "Occupancy"), "gpuprof run has no option --section"),
        (("--metrics", "a"), "gpuprof run has no option --metrics"),
        (("--export", "x"), "gpuprof run has no option --export"),
        (("-i", "x"), "gpuprof run has no option -i"),
        (("-m", "json.tool"), "gpuprof run has no option -m"),
        (("--set", "basic"), "gpuprof run has no --set basic"),
        (("--replay-mode", "range"), "gpuprof run has no --replay range"),
        (("--clock-control", "reset"), "gpuprof run has no --clock-control reset"),
        (("--target-processes", "application-only"), "gpuprof run has no --target-processes application-only"),
        (("-k", "x", "--kernel-name-base", "mangled"), "gpuprof run has no --kernel-name-base mangled"),
        (("--kernel-name-base", "function"), "--kernel-name-base is about --kernel-name"),
        (("--kernel", "a", "-k", "b"), "--kernel and --kernel-name cannot be combined"),
        (("--kernel", "#0"), "--kernel #0 numbers a kernel of a report"),
        (("-o", "x.ncu-rep"), "-o x.ncu-rep: a profiled program leaves several files"),
    ],
)
def test_what_ncu_has_and_gpuprof_has_not_is_an_error_with_a_way(
    place: Path, options: tuple[str, ...], message: str
) -> None:
    said, hint = error_and_hint(typed(place, "run", *options, "./app"))
    assert said == message and hint and "--help" not in hint


@each_row(
    ("options", "hint"),
    [
        (("-i", "a.ncu-rep"), "gpuprof show a.ncu-rep"),
        (("--import", "a.ncu-rep", "--csv"), "gpuprof show a.ncu-rep"),
        (("--csv", "a.ncu-rep"), "gpuprof show --format csv FILE"),
        (("--page", "raw", "a.ncu-rep"), OF_READING["--page"]),
    ],
)
def test_ncus_way_to_read_a_report_is_answered_with_ours(place: Path, options: tuple[str, ...], hint: str) -> None:
    assert error_and_hint(typed(place, "show", *options))[1] == hint


def test_every_option_that_is_explained_is_one_of_ncu_and_none_of_ours() -> None:
    known = set(NCU_OPTIONS.read_text(encoding="utf-8").split())
    # Of earlier releases, and of Python.
    known |= {"--kernel-regex", "--kernel-regex-base", "--details-all", "-m"}
    assert {*OF_PROFILING, *OF_READING} <= known
    assert {name for name, _ in OF_VALUES} <= known | {"--replay"}
    for name, table in (
        ("run", OF_PROFILING),
        ("roofline", OF_PROFILING),
        ("show", OF_READING),
        ("report", OF_READING),
    ):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        parser = command.make_parser(click.Context(command))
        for option in table:
            assert option not in {*parser._long_opt, *parser._short_opt}, f"{name} has {option}"


# Names of what is written


@each_row(
    ("line", "message", "hint"),
    [
        ("roofline a.ncu-rep -o x.jpg", "rooflines are drawn as .svg, .png, .pdf and .html", "-o DIR leaves .svg"),
        ("roofline -o x.svg ./app", "a profiled program leaves several files", "name a folder: -o x"),
        ("report a.ncu-rep -o x.pdf", "a page is HTML", "-o x.html, then print the page from a browser, as PDF"),
        ("report a.ncu-rep -o x.png", "a page is HTML", "gpuprof roofline draws pictures"),
        ("report a.ncu-rep -o x.md", "a page is HTML", "gpuprof show --format md FILE > NAME.md"),
    ],
)
def test_a_file_that_is_not_written_is_no_folder(place: Path, line: str, message: str, hint: str) -> None:
    before = sorted(place.iterdir())
    arguments = line.split()
    said = error_and_hint(typed(place, *arguments))
    assert said[0] == f"-o {arguments[arguments.index('-o') + 1]}: {message}" and said[1].startswith(hint)
    assert sorted(place.iterdir()) == before


def test_a_folder_may_have_a_dot_and_an_existing_one_any_name(place: Path) -> None:
    (place / "old.png").mkdir()
    for name in ("v1.2", "old.png"):
        assert typed(place, "roofline", "a.ncu-rep", "-o", name).returncode == 0
        assert (place / name / "roofline.svg").is_file()


def test_a_pdf_has_its_fonts_and_no_date(place: Path) -> None:
    done = typed(place, "roofline", "a.ncu-rep", "-o", "x.pdf")
    assert done.returncode == 0 and "wrote x.pdf to ." in done.stderr
    data = (place / "x.pdf").read_bytes()
    assert data.startswith(b"%PDF") and b"/CIDFontType2" in data and b"/FontFile2" in data
    assert not any(mark in data for mark in (b"/Type3", b"Date", b"Matplotlib"))


def test_equal_figures_are_equal_pdfs(place: Path) -> None:
    from gpuprof.api import load
    from gpuprof.present.figures import overview
    from gpuprof.present.plot import render_pdf

    figure = overview(load(place / "a.ncu-rep"))
    assert render_pdf(figure) == render_pdf(figure) != render_pdf(figure, "dark")


# Dry runs, and how errors are written


@each_row(
    "options",
    [
        ("--ncu", "nope"),
        ("--survey", "nsys"),
        ("--spec", "nope"),
        ("--arch", "sm_1"),
        ("--survey", "nope.ncu-rep"),
        ("--survey", "torch", "--launch-count", "2"),
        ("-o", "taken"),
    ],
)
def test_a_dry_run_that_fails_prints_no_command(place: Path, options: tuple[str, ...]) -> None:
    (place / "taken").mkdir()
    (place / "taken" / "session.json").write_text("{}")
    path = f"{place}:/bin"
    done = gpuprof("run", "--dry-run", *options, "./app", cwd=place, environ=environ(PATH=path))
    assert done.returncode in (2, 3, 5) and done.stdout == "" and "error: " in done.stderr


def test_a_dry_run_needs_no_ncu_and_says_so(place: Path) -> None:
    done = gpuprof("run", "--dry-run", "./app", cwd=place, environ=environ(PATH=str(place)))
    if "the commands call it ncu" not in done.stderr:
        pytest.skip("ncu is installed here")
    assert done.returncode == 0 and done.stdout.splitlines()[-1].startswith("ncu ")


@each_row(
    ("line", "said"),
    [
        ("show", ["gpuprof show needs a file", "usage: gpuprof show [OPTIONS] FILE...", "gpuprof show report.ncu-rep"]),
        ("run", ["gpuprof run needs a program", "usage: gpuprof run [OPTIONS] -- PROGRAM", "gpuprof run -- "]),
        ("roofline", ["gpuprof roofline needs a file or a program", "gpuprof roofline report.ncu-rep"]),
        ("compare", ["gpuprof compare needs BASE and NEW", "gpuprof compare base.ncu-rep new.ncu-rep"]),
        ("compare a", ["gpuprof compare needs NEW", "gpuprof compare a new.ncu-rep"]),
        ("specs show", ["gpuprof specs show needs NAME", "usage: ", "gpuprof specs show --help"]),
        ("compare a b c", ["gpuprof compare takes BASE and NEW, and 3 files were named", "several files a side: "]),
        ("compare --base", ["--base needs a value", "--base FILE..."]),
        ("show --format xml a.ncu-rep", ["--format xml: no such choice", "choose one of table, json, csv, md"]),
        ("show --top x a.ncu-rep", ["--top x: not a number", "--top takes a whole number, 0 or more"]),
        ("show --top -1 a.ncu-rep", ["--top -1: out of range", "--top takes a whole number, 0 or more"]),
        ("run --coverage 2e2 ./app", ["--coverage 200: out of range", "--coverage takes a number above 0, at most 1"]),
        ("run --timeout 0 ./app", ["--timeout 0: out of range", "--timeout takes a number above 0"]),
        ("show --format", ["--format needs a value", "choose one of table, json, csv, md"]),
        ("run --ncu", ["--ncu needs a value", "--ncu PATH"]),
        ("run --peers=1 ./app", ["--peers takes no value", "leave out = and what follows it"]),
        ("run -o notes.txt ./app", ["--output notes.txt is a file", "name a folder"]),
        ("show --tpo 3 a.ncu-rep", ["gpuprof show has no option --tpo", "did you mean --top?"]),
        ("show --qqq a.ncu-rep", ["gpuprof show has no option --qqq", "gpuprof show --help lists the options"]),
        ("doctor -q", ["gpuprof doctor has no option -q", "gpuprof doctor --help lists the options"]),
    ],
)  # fmt: skip
def test_an_error_of_usage_reads_as_every_other(place: Path, line: str, said: list[str]) -> None:
    done = typed(place, *line.split())
    error_and_hint(done)
    lines = done.stderr.splitlines()
    assert lines[0] == f"error: {said[0]}" and len(lines) == len(said)
    assert lines[-1].startswith(f"hint: {said[-1]}")
    assert all(told.startswith(expected) for told, expected in zip(lines[1:-1], said[1:-1], strict=True))


@each_row("name", COMMANDS)
@each_row(
    "wrong", [("--no-such-option",), ("--format", "no-such-form"), ("-o",), ("--top", "many"), ("a", "b", "c", "d")]
)
def test_no_path_prints_clicks_own_words(place: Path, name: str, wrong: tuple[str, ...]) -> None:
    done = typed(place, name, *wrong)
    assert done.returncode in (2, 5) and done.stdout == ""
    assert done.stderr.startswith("error: ") and not re.search(r"Error:|Usage:|Try '|No such|Invalid", done.stderr)
    assert not done.stderr.splitlines()[0].endswith(".")


def test_the_one_line_help_of_a_command_fits_a_line() -> None:
    width = max(map(len, COMMANDS))
    assert all(2 + width + 2 + len(text) <= 80 for text in COMMANDS.values())


@each_row(
    ("line", "message", "hint"),
    [
        ("--base a", "--base has a, and --new is missing", "gpuprof compare --base BASE... --new NEW..."),
        ("--new a b", "--new has 2 files, and --base is missing", "gpuprof compare --base BASE... --new NEW..."),
        ("--base a --new", "--new needs a value", "--new FILE..."),
        ("x --top 0 --new b", "x and --new: files are named in one of two ways", None),
        ("a --base b c", "a and --base: files are named in one of two ways", None),
        ("- -", "- stands for two files, and standard input has one", "save one of them as a file"),
        ("a b --budget 5", "--budget is about --run, and only files were named", "leave it out"),
        ("a b --run -- x --- y", "files and --run cannot be combined", None),
        ("--run", "--run needs two programs behind --", None),
        ("--run -- ./a", "--run has one program, and needs two with --- between them", None),
        ("--run -- ./a ---", "--run has no program on one side of ---", None),
        ("--run -- a --- b --- c", "--run has more than two programs", None),
        ("a b --match x", "--match 'x' is not OLD=NEW", None),
        ("a b --match =x", "--match '=x' is not OLD=NEW", None),
        ("a b --match a=b=c", "--match 'a=b=c' has more than one =", None),
        ("a b --path-map x", "--path-map 'x' is not FROM=TO", None),
        ("a b --fail-on time:3", "--fail-on 'time:3': '3' has no %", "write time:3%"),
        ("a b --fail-on k=time:3", "--fail-on 'k=time:3': '3' has no %", "write k=time:3%"),
        ("a b --fail-on time:-3%", "--fail-on 'time:-3%': a limit is 0 % or more", "write time:3%"),
        ("a b --fail-on time:nan%", "--fail-on 'time:nan%': 'nan%' is not a percentage", "write time:3%"),
        ("a b --fail-on time:inf%", "--fail-on 'time:inf%': 'inf%' is not a percentage", "write time:3%"),
        ("a b --fail-on time:", "--fail-on 'time:': '' is not a percentage", "write time:3%"),
        ("a b --fail-on instrctions", "--fail-on 'instrctions': unknown quantity 'instrctions'", "did you mean instr"),
        ("a b --fail-on dram:1%", "--fail-on 'dram:1%': unknown quantity 'dram'", "did you mean dram-bytes?"),
        ("a b --fail-on opcode.mufu", "--fail-on 'opcode.mufu': unknown quantity", "did you mean opcode.MUFU?"),
        ("a b --fail-on flop.fp46", "--fail-on 'flop.fp46': unknown quantity 'flop.fp46'", "did you mean flop.fp64?"),
        ("a b --fail-on qqq", "--fail-on 'qqq': unknown quantity 'qqq'", "there are time, total-time, instructions,"),
        ("a b --fail-on =time:3%", "--fail-on '=time:3%' names no kernel before =", "time:3% is for every kernel"),
        ("a b --fail-on gemm=", "--fail-on 'gemm=' names no quantity", None),
        ("a b --fail-on (=time", "--fail-on '(' is not a regular expression: missing )", None),
        ("a b --fail-on #3=time", "--fail-on #3 is the number of a kernel in one report", None),
        ("a b --fail-on x=total-time", "--fail-on 'x=total-time': total-time is of all kernels", None),
        ("a b --fail-on time:3% --fail-on time:4%", "--fail-on: 'time:3%' and 'time:4%' contradict each other", "keep"),
        ("a b --unclear maybe", "--unclear maybe: no such choice", "choose one of pass, fail"),
        ("a b -o x.foo", "-o x.foo: its ending tells no format", "name it, such as -o md=x.foo"),
        ("a b -o -", "-o -: no file is written to standard output", None),
        ("a b -o junt=x.xml", "-o junt=x.xml: unknown format junt", "did you mean -o junit=x.xml?"),
        ("a b -o x.md -o ./x.md", "-o x.md is given twice", "name each file once"),
        ("a b -o notes.txt", "-o notes.txt: its ending tells no format", None),
        ("a b -o md=notes.txt", "notes.txt already exists", "choose another name, or add --force"),
        ("a b --open", "--open opens a page, and none is written", "add -o compare.html"),
        ("a b --update-baseline", "--update-baseline needs limits", "add --fail-on, or --force"),
        ("a b --format xml", "--format xml: no such choice", "choose one of table, json, md"),
        ("a.ncu-rep b.ncu-rep --fail-on nope=time", "--fail-on 'nope=time' matches no kernel", "there are: #0 sgemm"),
        ("a.ncu-rep b.ncu-rep --kernel nope", "--kernel 'nope' matches no kernel", "there are: #0 sgemm"),
        ("a.ncu-rep b.ncu-rep --exclude sgemm", "every kernel is excluded", "drop one of 'sgemm'"),
    ],
)  # fmt: skip
def test_a_wrong_comparison_is_answered_with_what_to_type(
    place: Path, line: str, message: str, hint: str | None
) -> None:
    shutil.copy(place / "a.ncu-rep", place / "b.ncu-rep")
    said, hinted = error_and_hint(typed(place, "compare", *line.split(" ")))
    assert said.startswith(message) and hinted.startswith(hint or "") and hinted


@each_row(
    ("line", "message", "hint"),
    [
        ("folder a.ncu-rep", "folder is a folder", "name a file in it: folder/REPORT.ncu-rep"),
        ("a.ncu-rep none.ncu-rep", "none.ncu-rep: no such file", ""),
        (
            "a.measured.yaml a.ncu-rep",
            "a.measured.yaml describes a GPU, and a.ncu-rep is a profile: they cannot",
            "nam",
        ),
        ("a.ncu-rep empty.ncu-rep", "empty.ncu-rep", ""),
        ("--base a.ncu-rep a.ncu-rep --new a.ncu-rep", "a.ncu-rep is given twice", "name each file once"),
        ("a.ncu-rep other.ncu-rep --fail-on time", "no kernel is on both sides", "name those that belong together"),
        (
            "a.ncu-rep a.ncu-rep --fail-on registers --accept none.toml",
            "none.toml cannot be read: no such file or directory",
            "",
        ),
    ],
)
def test_what_cannot_be_compared_is_an_input_that_cannot_be_used(
    place: Path, line: str, message: str, hint: str
) -> None:
    (place / "other.ncu-rep").write_bytes(simple_report([("completely_else", A100)]))
    done = typed(place, "compare", *line.split())
    assert (done.returncode, done.stdout) == (5, "")
    said, *rest = done.stderr.splitlines()
    assert said.startswith(f"error: {message}") and "".join(rest).startswith(f"hint: {hint}" if hint else "")


# Odd names, and hints that can be typed


@each_row("name", ["a b.ncu-rep", "it's.ncu-rep", "a\nb.ncu-rep", "\udcff.ncu-rep", "-o.ncu-rep", "-o"])
def test_what_is_next_can_be_typed_whatever_the_name(place: Path, name: str) -> None:
    shutil.copy(place / "a.ncu-rep", place / name)
    done = typed(place, "--", name)
    assert done.returncode == 0, done.stderr
    (following,) = re.findall(r"next: gpuprof show (.*) --kernel '#0'", done.stderr)
    read = ["bash", "-c", f"cat {following}"]
    assert subprocess.run(read, cwd=place, stdout=subprocess.PIPE, check=True).stdout == simple_report(
        [("sgemm", A100)]
    )


@each_row("command", [(), ("show",)])
def test_the_pattern_for_the_reports_of_a_folder_can_be_typed(place: Path, command: tuple[str, ...]) -> None:
    (place / "my results").mkdir()
    shutil.copy(place / "a.ncu-rep", place / "my results")
    hint = typed(place, *command, "my results").stderr.partition("gpuprof show ")[2]
    listed = subprocess.run(["sh", "-c", f"ls {hint}"], cwd=place, capture_output=True, text=True, check=True)
    assert listed.stdout == "my results/a.ncu-rep\n"


@each_row(
    ("words", "message", "hint"),
    [
        (("",), "the first word is empty", "gpuprof --help lists the commands"),
        (("/dev/null",), "/dev/null is neither a command nor a file that gpuprof reads", "gpuprof --help lists the"),
        (("loop.txt",), "loop.txt is neither a command nor a file that gpuprof reads", "gpuprof --help lists the"),
        (("sparse",), "sparse is neither a command nor a file that gpuprof reads", "did you mean: gpuprof compare"),
        (("help", "help"), "gpuprof has no command help", "did you mean: gpuprof --help"),
        (("ncu", "-i", "a.ncu-rep"), "gpuprof has no command ncu", "did you mean: gpuprof show a.ncu-rep"),
        (("env", "X=1", "./app"), "env is a program, not a command", "gpuprof run -- env X=1 ./app"),
        (("--import", "a b.ncu-rep"), "gpuprof has no option --import", "gpuprof show 'a b.ncu-rep'"),
        (("-m", "torch"), "gpuprof has no option -m", "Python's -m follows --: gpuprof run -- -m package.module"),
        (("--show", "a.ncu-rep"), "gpuprof has no option --show", "did you mean: gpuprof show"),
        (("--versoin",), "gpuprof has no option --versoin", "did you mean --version?"),
        (("show", "--open", "a.ncu-rep"), "gpuprof show has no option --open", "gpuprof report has it"),
        (("report", "--explain", "a", "a.ncu-rep"), "gpuprof report has no option --explain", "gpuprof show has it"),
        (("run", "--kernel", "--", "./app"), "--kernel needs a value", "--kernel REGEX"),
        (("run", "--exclude", "--", "./app"), "--exclude needs a value", "--exclude REGEX|#N"),
        (("run", "-o", "", "./app"), "-o has an empty name", "name a place after -o"),
        (("report", "-o", "-", "a.ncu-rep"), "-o -: no file is written to standard output", "name a place after -o"),
        (("run", "-o", "a", "-o", "b", "./app"), "-o names two places: a and b", "name one of them"),
        (("characterize", "-o", "a", "-o", "b"), "-o names two places: a and b", "name one of them"),
        (("characterize", "--html", ""), "--html has an empty name", "name a place after --html"),
        (("show", "--items-per-step", "nan", "a.ncu-rep"), "--items-per-step nan: not a number", "--items-per-step"),
        (("show", "--cost-per-hour", "inf", "a.ncu-rep"), "--cost-per-hour inf: not a number", "--cost-per-hour"),
    ],
)
def test_what_is_wrong_is_said_as_it_is(place: Path, words: tuple[str, ...], message: str, hint: str) -> None:
    (place / "loop.txt").symlink_to("loop.txt")
    (place / "sparse").write_text("text\n")
    said, hinted = error_and_hint(typed(place, *words))
    assert said == message and hinted.startswith(hint)


@each_row(
    ("texts", "expression"),
    [((), None), (("gemm|conv",), "gemm|conv"), (("^gemm", "a|b"), "(?:^gemm)|(?:a|b)")],
)
def test_kernels_to_profile_are_what_any_of_the_expressions_names(
    texts: tuple[str, ...], expression: str | None
) -> None:
    assert expression_of(texts) == expression
    with pytest.raises(UsageError, match="--kernel #3 numbers a kernel of a report"):
        expression_of((*texts, "#3"))


@each_row(
    ("texts", "message"),
    [
        (("a", "("), "--kernel '(' is not a regular expression: missing ), unterminated subpattern at position 0"),
        (("a)|(b", "c"), "--kernel 'a)|(b' is not a regular expression: unbalanced parenthesis at position 1"),
        (("(?i)a", "b"), "--kernel '(?i)a': flags and references to groups hold for a whole expression"),
        (("(a)", r"(b)\1"), r"--kernel '(b)\\1': flags and references to groups hold for a whole expression"),
        (("(?P<x>a)", "b"), "--kernel '(?P<x>a)': flags and references to groups hold for a whole expression"),
    ],
)
def test_what_cannot_be_one_of_several_expressions_is_told_as_typed(texts: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        expression_of(texts)
    assert str(refused.value) == message and refused.value.hint is not None


def test_flags_of_a_lone_expression_are_kept() -> None:
    assert expression_of((r"(?i)(a)\1",)) == r"(?i)(a)\1"
    assert expression_of((r"\\1", "(?:a)")) == r"(?:\\1)|(?:(?:a))"


@each_row("words", [(), ("run",), ("run", "--")])
def test_a_name_that_no_file_can_have_is_typed_wrongly(place: Path, words: tuple[str, ...]) -> None:
    message, _ = error_and_hint(typed(place, *words, "a" * 5000))
    assert message == f"{'a' * 80}…: the name is too long"


@each_row(("name", "what"), [("my app", "a program"), ("go", "a script")])
def test_a_program_where_a_report_belongs_is_told_with_a_line_to_type(place: Path, name: str, what: str) -> None:
    shutil.copy("/bin/true", place / "my app")
    (place / "go").write_text("#!/bin/sh\n")
    done = typed(place, "show", name)
    program = shlex.quote(f"./{name}")
    assert done.stderr == f"error: {name} is {what}, not a report\nhint: profile it: gpuprof run -- {program}\n"
    assert done.returncode == 5


def test_of_the_reports_that_are_there_the_nearest_is_named_first(place: Path) -> None:
    for name in ("b", "c", "d", "gemm"):
        shutil.copy(place / "a.ncu-rep", place / f"{name}.ncu-rep")
    assert "the current folder has gemm.ncu-rep" in typed(place, "show", "gem.ncu-rep").stderr


def test_the_exit_code_tells_where_stderr_takes_nothing(place: Path) -> None:
    words = shlex.join([*GPUPROF, "show", "none.ncu-rep"])
    full = subprocess.run(["sh", "-c", f"{words} 2>/dev/full"], cwd=place, check=False)
    gone = subprocess.run(["bash", "-c", f"{words} 2>&1 | true; exit ${{PIPESTATUS[0]}}"], cwd=place, check=False)
    assert (full.returncode, gone.returncode) == (5, 5)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@each_row("line", ["show a.ncu-rep", "show --format csv a.ncu-rep", "specs list", "specs", "--version"])
def test_a_place_that_takes_no_output_is_an_output_that_cannot_be_written(place: Path, line: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = gpuprof(*line.split(), cwd=place, environ=environ(), onto={1: full.fileno()})
    assert done.stderr == "error: cannot write standard output: No space left on device\n"
    assert done.returncode == 2


def test_a_working_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    words = shlex.join([*GPUPROF, "show", "a.ncu-rep"])
    gone = ["sh", "-c", f"mkdir gone && cd gone && rmdir ../gone && {words}"]
    done = subprocess.run(gone, cwd=tmp_path, capture_output=True, text=True, check=False)
    told = "error: the working folder is gone\nhint: change to another one with cd\n"
    assert (done.returncode, done.stderr) == (1, told)


def test_a_link_is_followed_where_the_user_has_typed_it(place: Path) -> None:
    for name in ("report.html", "typed.html"):
        (place / f"behind-{name}").write_text("mine")
        (place / name).symlink_to(f"behind-{name}")
    assert typed(place, "report", "a.ncu-rep", "--force").returncode == 0
    assert typed(place, "report", "a.ncu-rep", "-o", "typed.html", "--force").returncode == 0
    assert (place / "behind-report.html").read_text() == "mine" and not (place / "report.html").is_symlink()
    assert (place / "behind-typed.html").stat().st_size > 10_000 and (place / "typed.html").is_symlink()


def test_names_of_drafts_cannot_be_foreseen(place: Path) -> None:
    assert draft_of(place / "a") != draft_of(place / "a")


def test_a_pipe_that_nobody_writes_into_is_not_waited_for_for_ever(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(place / "session.json")
    monkeypatch.setattr(plain_file, "PATIENCE_S", 0.2)
    done = typed(place, "show", "session.json")
    assert done.returncode == 5 and "nobody has written into it" in done.stderr
    assert typed(place, "compare", "session.json", "a.ncu-rep").returncode == 5
    assert typed(place, "check", "session.json").returncode == 5


def test_a_report_over_a_link_to_itself_replaces_the_link(place: Path) -> None:
    (place / "loop").symlink_to("loop")
    refused = typed(place, "report", "a.ncu-rep", "-o", "loop")
    assert refused.stderr.startswith("error: loop already exists\n")
    assert typed(place, "report", "a.ncu-rep", "-o", "loop", "--force").returncode == 0
    assert (place / "loop").read_text().startswith("<!DOCTYPE html>")


@each_row("refused", ["exists", "is_dir", "open", "unlink"])
@each_row("output", ["out.html", "new/out.html"])
def test_a_place_that_takes_nothing_is_told_and_nothing_stays(
    tmp_path: Path, refused: str, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "closed"
    place.mkdir()

    def closed(before: Callable[..., Any]) -> Callable[..., Any]:
        def function(path: Path, *arguments: Any, **options: Any) -> Any:
            if place in path.parents:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return before(path, *arguments, **options)

        return function

    for name in {refused, "open", "mkdir"}:
        monkeypatch.setattr(Path, name, closed(getattr(Path, name)))
    with pytest.raises(UsageError, match=r"cannot write .*: Permission denied") as caught:
        write_files({place / output: b"page"})
    assert caught.value.hint == "choose another place with -o"
    monkeypatch.undo()
    assert list(place.iterdir()) == []
