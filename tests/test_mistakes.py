"""What people type wrongly: programs without --, files without a command, names of other tools, options of ncu."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuprof.cli.profiling import expression_of
from gpuprof.errors import UsageError
from gpuprof.own_files import draft_of
from gpuprof.read import plain_file
from tests.cli import Done, gpuprof
from tests.ncu_bytes import A100, simple_report
from tests.table import each_row
from tests.test_run import STANDIN, value_after

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
    for name in ("loop.py", "loop.txt"):
        (tmp_path / name).symlink_to(name)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "session.json").write_text("{}")
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


# No command


def test_a_file_without_a_command_is_shown(place: Path) -> None:
    shown = typed(place, "show", "a.ncu-rep", "--format", "csv")
    assert shown.returncode == 0
    assert typed(place, "a.ncu-rep", "--format", "csv").stdout == shown.stdout
    missing = typed(place, "b.ncu-rep")
    assert missing.returncode == 5 and missing.stderr.startswith("error: b.ncu-rep")


@each_row(
    ("line", "hint"),
    [
        ("./app --size 4", "gpuprof run -- ./app --size 4"), ("app", "gpuprof run -- ./app"),
        ("train.py --lr 3", "gpuprof run -- train.py --lr 3"), ("python3 train.py", "gpuprof run -- python3 train.py"),
        ("trian.py", "train.py"), ("k.cu", "nvcc -lineinfo -o k ./k.cu"), ("noexec", "chmod +x ./noexec"),
        ("folder", "gpuprof show folder"), ("notes.txt", ""), ("shwo a.ncu-rep", "gpuprof show a.ncu-rep"),
        ("analyze a.ncu-rep", "gpuprof show a.ncu-rep"), ("analyze ./app", "gpuprof run -- ./app"),
        ("profile ./app 1", "gpuprof run -- ./app 1"), ("profile", "gpuprof run -- ./app"),
        ("profile a.ncu-rep", "gpuprof show a.ncu-rep"), ("ncu --set full ./app", "gpuprof run --set full ./app"),
        ("ncu -i a.ncu-rep", "gpuprof show a.ncu-rep"), ("nsys profile ./app", "gpuprof run -- ./app"),
        ("env X=1 ./app", "gpuprof run -- env X=1 ./app"), ("list", "gpuprof show"),
        ("html a.ncu-rep", "gpuprof report a.ncu-rep"), ("plot a.ncu-rep", "gpuprof roofline a.ncu-rep"),
        ("diff a.measured.yaml b.measured.yaml", "gpuprof compare a.measured.yaml b.measured.yaml"),
        ("cmp a.json b.json", "gpuprof compare a.json b.json"), ("help run", "gpuprof run --help"),
        ("help help", "gpuprof --help"), ("qqq", "gpuprof --help"), ("/dev/null", "gpuprof --help"),
        ("loop.txt", "gpuprof --help"), ("-i a.ncu-rep", "gpuprof show a.ncu-rep"),
        ("--sort time a.ncu-rep", "gpuprof show --sort"), ("show --csv a.ncu-rep", "gpuprof show --format csv FILE"),
        ("show --import a.ncu-rep --csv", "gpuprof show a"), ("show --page raw a.ncu-rep", ""),
        ("-m torch", "gpuprof run -- -m package.module"),
        ("--show a.ncu-rep", "gpuprof show"), ("--versoin", "--version"), ("specs lst", "gpuprof specs list"),
        ("show --open a.ncu-rep", "gpuprof report"), ("report --explain a a.ncu-rep", "gpuprof show"),
        ("run --kernel -- ./app", "--kernel REGEX"), ("run --exclude -- ./app", "--exclude REGEX|#N"),
        ("report -o - a.ncu-rep", "-o"), ("run -o a -o b ./app", ""), ("characterize -o a -o b", ""),
        ("show --items-per-step nan a.ncu-rep", "--items-per-step"),
        ("show --cost-per-hour inf a.ncu-rep", "--cost-per-hour"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_answered_with_what_to_type(place: Path, line: str, hint: str) -> None:
    assert hint in error_and_hint(typed(place, *line.split()))[1]


# Files for programs, and programs for files


@each_row(
    ("name", "content"),
    [
        ("a.ncu-rep", None),
        ("kernels", CSV_HEADER),
        ("log", f"step 1\nstep 2\n{CSV_HEADER}"),
        ("trace.json", '{"traceEvents": []}'),
        ("session.json", '{"schema_version": 1}'),
        ("t.nsys-rep", "NSYS"),
        ("x.measured.yaml", "gpu: a\n"),
    ],
)
def test_a_file_to_read_is_not_run(place: Path, name: str, content: str | None) -> None:
    if content is not None:
        (place / name).write_text(content)
    assert error_and_hint(typed(place, "run", name, "--more"))[1] == f"gpuprof show {name}"


@each_row(
    ("word", "hint"),
    [
        ("./nope", ""), ("./ap", "./app"), ("no/app", "no"), ("./noexec", "chmod +x ./noexec"), ("./empty", ""),
        ("empty.py", ""), ("./folder", "gpuprof run -- ./app"), ("./dangling", ""),
        ("./notes.txt", "gpuprof run -- ./app"), ("./k.cu", "nvcc -lineinfo -o k ./k.cu"), ("trian.py", "train.py"),
        ("loop.py", ""), ("app", "gpuprof run -- ./app"), ("qqq", "gpuprof run -- ./app"),
        ("ncu", "gpuprof run -- ./app"), ("", "gpuprof run -- ./app"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_program_is_said(place: Path, word: str, hint: str) -> None:
    message, hinted = error_and_hint(typed(place, "run", "--", word))
    assert message.startswith(word) and hint in hinted
    assert error_and_hint(typed(place, "run", "--dry-run", "--", word)) == (message, hinted)


def test_a_file_that_cannot_be_read_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b.ncu-rep", "folder", "empty.ncu-rep"):
        done = typed(place, "show", name)
        assert done.returncode == 5 and done.stderr.startswith(f"error: {name}") and "\nhint: " in done.stderr

    def closed(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "lstat", closed)
    for name in ("folder/app", "folder/train.py"):
        assert error_and_hint(typed(place, "run", name))[0] == f"{name}: permission denied"


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
    "options",
    [
        "--section Occupancy", "--metrics a", "--export x", "-i x", "-m json.tool", "--set basic",
        "--replay-mode range", "--clock-control reset", "--target-processes application-only",
        "-k x --kernel-name-base mangled",
        "--kernel-name-base function", "--kernel a -k b", "--kernel #0", "-o x.ncu-rep",
    ],
)  # fmt: skip
def test_what_ncu_has_and_gpuprof_has_not_is_an_error_with_a_way(place: Path, options: str) -> None:
    said, hint = error_and_hint(typed(place, "run", *options.split(), "./app"))
    assert said and hint and "--help" not in hint


# Names of what is written


@each_row(
    ("line", "hint"),
    [
        ("roofline a.ncu-rep -o x.jpg", "-o DIR"), ("roofline -o x.svg ./app", "-o x"),
        ("report a.ncu-rep -o x.pdf", "-o x.html"), ("report a.ncu-rep -o x.png", "gpuprof roofline"),
        ("report a.ncu-rep -o x.md", "gpuprof show --format md FILE > NAME.md"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_written_is_no_folder(place: Path, line: str, hint: str) -> None:
    before = sorted(place.iterdir())
    arguments = line.split()
    said = error_and_hint(typed(place, *arguments))
    assert said[0].startswith(f"-o {arguments[arguments.index('-o') + 1]}: ") and hint in said[1]
    assert sorted(place.iterdir()) == before


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
    path = f"{place}:/bin"
    done = gpuprof("run", "--dry-run", *options, "./app", cwd=place, environ=environ(PATH=path))
    assert done.returncode in (2, 3, 5) and done.stdout == "" and "error: " in done.stderr


@each_row(
    ("line", "hint"),
    [
        ("show", "gpuprof show report.ncu-rep"), ("run", "gpuprof run -- "),
        ("roofline", "gpuprof roofline report.ncu-rep"), ("compare", "gpuprof compare base.ncu-rep new.ncu-rep"),
        ("compare a", "gpuprof compare a new.ncu-rep"), ("specs show", "gpuprof specs show --help"),
        ("compare a b c", "--base"), ("compare --base", "--base FILE..."),
        ("show --format xml a.ncu-rep", "table, json, csv, md"), ("show --top x a.ncu-rep", "--top"),
        ("show --top -1 a.ncu-rep", "--top"), ("run --coverage 2e2 ./app", "--coverage"),
        ("run --timeout 0 ./app", "--timeout"), ("show --format", "table, json, csv, md"), ("run --ncu", "--ncu PATH"),
        ("run --peers=1 ./app", "="), ("run -o notes.txt ./app", ""), ("show --tpo 3 a.ncu-rep", "--top?"),
        ("show --qqq a.ncu-rep", "gpuprof show --help"), ("doctor -q", "gpuprof doctor --help"),
    ],
)  # fmt: skip
def test_an_error_of_usage_reads_as_every_other(place: Path, line: str, hint: str) -> None:
    assert hint in error_and_hint(typed(place, *line.split()))[1]


@each_row(
    ("line", "hint"),
    [
        ("--base a", "gpuprof compare --base BASE... --new NEW..."),
        ("--new a b", "gpuprof compare --base BASE... --new NEW..."), ("--base a --new", "--new FILE..."),
        ("x --top 0 --new b", ""), ("a --base b c", ""), ("- -", ""), ("a b --budget 5", ""),
        ("a b --run -- x --- y", ""), ("--run", ""), ("--run -- ./a", ""), ("--run -- ./a ---", ""),
        ("--run -- a --- b --- c", ""), ("a b --match x", ""), ("a b --match =x", ""), ("a b --match a=b=c", ""),
        ("a b --path-map x", ""), ("a b --fail-on time:3", "time:3%"), ("a b --fail-on k=time:3", "k=time:3%"),
        ("a b --fail-on time:-3%", "time:3%"), ("a b --fail-on time:nan%", "time:3%"),
        ("a b --fail-on time:inf%", "time:3%"), ("a b --fail-on time:", "time:3%"),
        ("a b --fail-on instrctions", "instructions"), ("a b --fail-on dram:1%", "dram-bytes"),
        ("a b --fail-on opcode.mufu", "opcode.MUFU"), ("a b --fail-on flop.fp46", "flop.fp64"),
        ("a b --fail-on qqq", "time, total-time, instructions,"), ("a b --fail-on =time:3%", "time:3%"),
        ("a b --fail-on gemm=", ""), ("a b --fail-on (=time", ""), ("a b --fail-on #3=time", ""),
        ("a b --fail-on x=total-time", ""), ("a b --fail-on time:3% --fail-on time:4%", ""),
        ("a b --unclear maybe", "pass, fail"), ("a b -o x.foo", "-o md=x.foo"), ("a b -o -", ""),
        ("a b -o junt=x.xml", "-o junit=x.xml"), ("a b -o x.md -o ./x.md", ""), ("a b -o notes.txt", ""),
        ("a b -o md=notes.txt", "--force"), ("a b --open", "-o compare.html"), ("a b --update-baseline", "--fail-on"),
        ("a b --format xml", "table, json, md"), ("a.ncu-rep b.ncu-rep --fail-on nope=time", "#0 sgemm"),
        ("a.ncu-rep b.ncu-rep --kernel nope", "#0 sgemm"), ("a.ncu-rep b.ncu-rep --exclude sgemm", "'sgemm'"),
    ],
)  # fmt: skip
def test_a_wrong_comparison_is_answered_with_what_to_type(place: Path, line: str, hint: str) -> None:
    shutil.copy(place / "a.ncu-rep", place / "b.ncu-rep")
    _, hinted = error_and_hint(typed(place, "compare", *line.split(" ")))
    assert hinted and hint in hinted


@each_row(
    ("texts", "expression"),
    [
        ((), None),
        (("gemm|conv",), "gemm|conv"),
        (("^gemm", "a|b"), "(?:^gemm)|(?:a|b)"),
        ((r"(?i)(a)\1",), r"(?i)(a)\1"),
        ((r"\\1", "(?:a)"), r"(?:\\1)|(?:(?:a))"),
    ],
)
def test_kernels_to_profile_are_what_any_of_the_expressions_names(
    texts: tuple[str, ...], expression: str | None
) -> None:
    assert expression_of(texts) == expression
    for wrong in ("#3", "(", "a)|(b"):
        with pytest.raises(UsageError) as refused:
            expression_of(("gemm", wrong))
        assert wrong in str(refused.value)


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


@each_row("line", ["show a.ncu-rep", "show --format csv a.ncu-rep", "specs list", "specs", "--version"])
def test_a_place_that_takes_no_output_is_an_output_that_cannot_be_written(place: Path, line: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = gpuprof(*line.split(), cwd=place, environ=environ(), onto={1: full.fileno()})
    assert done.stderr.startswith("error: ") and done.stderr.endswith("No space left on device\n")
    assert done.returncode == 2


def test_a_link_is_followed_where_the_user_has_typed_it(place: Path) -> None:
    for name in ("report.html", "typed.html"):
        (place / f"behind-{name}").write_text("mine")
        (place / name).symlink_to(f"behind-{name}")
    (place / "loop").symlink_to("loop")
    assert typed(place, "report", "a.ncu-rep", "--force").returncode == 0
    assert typed(place, "report", "a.ncu-rep", "-o", "typed.html", "--force").returncode == 0
    assert (place / "behind-report.html").read_text() == "mine" and not (place / "report.html").is_symlink()
    assert (place / "behind-typed.html").stat().st_size > 10_000 and (place / "typed.html").is_symlink()
    assert typed(place, "report", "a.ncu-rep", "-o", "loop").stderr.startswith("error: loop already exists\n")
    assert typed(place, "report", "a.ncu-rep", "-o", "loop", "--force").returncode == 0
    assert (place / "loop").read_text().startswith("<!DOCTYPE html>")
    assert draft_of(place / "a") != draft_of(place / "a")


def test_a_pipe_that_nobody_writes_into_is_not_waited_for_for_ever(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(place / "session.json")
    monkeypatch.setattr(plain_file, "PATIENCE_S", 0.2)
    for line in ("show session.json", "compare session.json a.ncu-rep", "check session.json"):
        assert typed(place, *line.split()).returncode == 5


@each_row(
    ("line", "named"),
    [
        ("folder a.ncu-rep", "empty folder"), ("a.ncu-rep none.ncu-rep", "none.ncu-rep"),
        ("a.measured.yaml a.ncu-rep", "a.measured.yaml"), ("a.ncu-rep empty.ncu-rep", "empty.ncu-rep"),
        ("--base a.ncu-rep a.ncu-rep --new a.ncu-rep", "a.ncu-rep"), ("a.ncu-rep other.ncu-rep --fail-on time", ""),
        ("a.ncu-rep a.ncu-rep --fail-on registers --accept none.toml", "none.toml"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_an_input_that_cannot_be_used(place: Path, line: str, named: str) -> None:
    (place / "other.ncu-rep").write_bytes(simple_report([("completely_else", A100)]))
    done = typed(place, "compare", *line.split())
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith("error: ") and named in done.stderr
