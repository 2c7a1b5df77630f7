"""`gpuprof.toml` and `[tool.gpuprof]`: where they are found, what may be in them, and that the command line wins."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuprof.cli import patience
from gpuprof.cli.config_file import KEYS, find_config
from gpuprof.errors import InputError
from tests.cli import Done, gpuprof, process
from tests.conftest import REPORTS
from tests.ncu_bytes import simple_report
from tests.table import each_row
from tests.test_run import BASELINE, Bench, bench

__all__ = ["bench"]

METRICS = {"gpu__time_duration.sum": 5.0}


def values(folder: Path, environ: Mapping[str, str] | None = None) -> Mapping[str, Any] | None:
    """What the configuration says of one who works in a folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        config = find_config(environ or {})
    finally:
        os.chdir(before)
    return config.values if config is not None else None


def put(place: Path, text: str) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    return place


def test_it_is_found_in_the_working_folder(tmp_path: Path) -> None:
    assert values(tmp_path) is None
    put(tmp_path / "gpuprof.toml", "top = 3\n")
    assert values(tmp_path) == {"top": 3}


@each_row("mark", ["folder", "file"])
def test_it_is_found_above_up_to_the_root_of_a_repository(tmp_path: Path, mark: str) -> None:
    below = tmp_path / "repository" / "src" / "kernels"
    below.mkdir(parents=True)
    put(tmp_path / "gpuprof.toml", "top = 1\n")
    git = tmp_path / "repository" / ".git"
    # A worktree has a file of that name.
    git.mkdir() if mark == "folder" else git.touch()
    assert values(below) is None
    put(tmp_path / "repository" / "gpuprof.toml", "top = 2\n")
    assert values(below) == {"top": 2}
    put(below / "gpuprof.toml", "top = 3\n")
    assert values(below) == {"top": 3}


def test_it_is_found_above_up_to_the_home_folder(tmp_path: Path) -> None:
    home, below = tmp_path / "home" / "mia", tmp_path / "home" / "mia" / "work"
    below.mkdir(parents=True)
    put(tmp_path / "home" / "gpuprof.toml", "top = 1\n")
    assert values(below, {"HOME": str(home)}) is None
    put(home / "gpuprof.toml", "top = 2\n")
    assert values(below, {"HOME": str(home)}) == {"top": 2}


def test_what_others_may_have_put_above_a_shared_folder_is_not_read(tmp_path: Path) -> None:
    put(tmp_path / "gpuprof.toml", "top = 1\n")
    (tmp_path / "mine").mkdir()
    assert values(tmp_path / "mine", {"HOME": "/home/mia"}) is None


def test_a_pyproject_counts_where_it_speaks_of_gpuprof(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    put(tmp_path / "pyproject.toml", "[tool.gpuprof]\ntop = 1\n")
    put(tmp_path / "a" / "pyproject.toml", '[project]\nname = "x"\ndependencies = ["gpuprof-cli"]\n')
    put(tmp_path / "a" / "b" / "pyproject.toml", "this is no TOML")
    assert values(tmp_path / "a" / "b") == {"top": 1}
    put(tmp_path / "gpuprof.toml", "top = 2\n")
    assert values(tmp_path / "a" / "b") == {"top": 2}


def test_a_working_folder_that_is_gone_has_none(tmp_path: Path) -> None:
    here = tmp_path / "gone"
    here.mkdir()
    done = process("show", "x.ncu-rep", cwd=here)
    assert done.returncode == 5
    before = Path.cwd()
    os.chdir(here)
    here.rmdir()
    try:
        assert find_config({}) is None
    finally:
        os.chdir(before)


def test_a_variable_names_it_or_does_without(tmp_path: Path) -> None:
    put(tmp_path / "gpuprof.toml", "top = 1\n")
    other = put(tmp_path / "other" / "mine.toml", "top = 2\n")
    assert values(tmp_path, {"GPUPROF_CONFIG": str(other)}) == {"top": 2}
    assert values(tmp_path, {"GPUPROF_CONFIG": ""}) is None
    with pytest.raises(InputError, match=r"GPUPROF_CONFIG: none\.toml does not exist"):
        values(tmp_path, {"GPUPROF_CONFIG": "none.toml"})
    with pytest.raises(InputError, match=r"GPUPROF_CONFIG: /dev/null is not a file"):
        values(tmp_path, {"GPUPROF_CONFIG": "/dev/null"})
    put(tmp_path / "pyproject.toml", "[project]\n")
    with pytest.raises(InputError, match=r"GPUPROF_CONFIG: pyproject.toml has no \[tool.gpuprof\]"):
        values(tmp_path, {"GPUPROF_CONFIG": "pyproject.toml"})


def test_a_link_to_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "gpuprof.toml").symlink_to("dotfiles.toml")
    with pytest.raises(InputError, match=r"gpuprof\.toml cannot be read"):
        values(tmp_path)


def test_a_table_that_belongs_into_pyproject_is_told(tmp_path: Path) -> None:
    put(tmp_path / "gpuprof.toml", "[tool.gpuprof]\ntop = 3\n")
    with pytest.raises(InputError) as caught:
        values(tmp_path)
    assert caught.value.hint == "keys stand alone in gpuprof.toml, without [tool.gpuprof]"


def test_a_pipe_or_folder_of_its_name_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gpuprof.toml")
    (tmp_path / "pyproject.toml").mkdir()
    assert values(tmp_path) is None


WRONG = {
    "exclud = []": "unknown key 'exclud'",
    '"\\u001b[31m" = 1': "unknown key",
    'exclude = "fill"': "exclude cannot be 'fill'",
    "exclude = [1]": "exclude cannot be [1]",
    'exclude = [""]': "exclude cannot be ['']",
    'exclude = ["("]': "exclude '(' is not a regular expression: missing ), unterminated subpattern at position 0",
    'exclude = ["#3"]': "exclude #3 is the number of a kernel in one report",
    "top = -1": "top cannot be -1",
    "top = true": "top cannot be True",
    "top = 2.0": "top cannot be 2.0",
    f"top = {2**70}": f"top cannot be {2**70}",
    "set = []": "set cannot be []",
    'set = "fll"': "set cannot be 'fll'",
    "coverage = 0": "coverage cannot be 0",
    "coverage = 100.1": "coverage cannot be 100.1",
    "coverage = nan": "coverage cannot be nan",
    "coverage = inf": "coverage cannot be inf",
    "coverage = true": "coverage cannot be True",
    "spec = 1979-05-27": "spec cannot be datetime.date(1979, 5, 27)",
    'spec = ""': "spec cannot be ''",
    'spec = "a\\u0000b"': "spec cannot be 'a\\x00b'",
    'spec = "specs/none.yaml"': "spec 'specs/none.yaml' does not exist",
    'ncu = "./evil"': "unknown key 'ncu'",
    "[run]\nset = 'full'": "unknown key 'run'",
    "compare = 3": "compare cannot be 3",
    "[compare]\nfail-on = 'time:3%'": "compare.fail-on cannot be 'time:3%'",
    "[compare]\nfail-on = ['time:3']": "fail-on 'time:3': '3' has no %",
    "[compare]\nfail-on = ['tme:3%']": "fail-on 'tme:3%': unknown quantity 'tme'",
    "[compare]\nfail-on = ['time:3%', 'time:4%']": "fail-on: 'time:3%' and 'time:4%' contradict each other",
    "[compare]\nfailon = ['time:3%']": "unknown key 'compare.failon'",
    "[compare]\nunclear = true": "compare.unclear cannot be True",
    "[compare]\nunclear = 'maybe'": "compare.unclear cannot be 'maybe'",
    "[compare]\naccept = ''": "compare.accept cannot be ''",
    "[compare]\noutput = 'x'": "unknown key 'compare.output'",
    "[compare]\nkernels = ['gemm']": "compare.kernels cannot be ['gemm']",
    "[compare.kernels]\ngemm = 'time:3%'": "compare.kernels.'gemm' cannot be 'time:3%'",
    "[compare.kernels.gemm]\nfail = []": "compare.kernels.'gemm' cannot be {'fail': []}",
    "[compare.kernels.gemm]\nfail-on = ['x=time:3%']": "'x=time:3%' of 'gemm' names a kernel itself",
    "[compare.kernels.'(']\nfail-on = ['time']": "fail-on '(' is not a regular expression",
    "[compare.kernels.'#3']\nfail-on = ['time']": "fail-on #3 is the number of a kernel in one report",
    '"compare.fail-on" = ["time"]': "unknown key",
    "top = \n": "invalid value (at line 1, column 7)",
    "top = 1\ntop = 2\n": "cannot overwrite a value (at line 2, column 8)",
    f"top = {'9' * 5000}": "exceeds the limit",
    f"top = {'[' * 100_000}": "nested too deeply",
    "exclude = [" + '"x",' * 400_000 + "]": "has more than 1 MiB",
}


@each_row("text", WRONG, ids=lambda text: text[:20])
def test_what_is_wrong_is_told_with_the_file(tmp_path: Path, text: str) -> None:
    put(tmp_path / "gpuprof.toml", text)
    with pytest.raises(InputError) as raised:
        values(tmp_path)
    assert re.match(r"gpuprof\.toml:? ", raised.value.message) and WRONG[text] in raised.value.message
    assert raised.value.hint and len(raised.value.message) < 300


@each_row(
    ("data", "told"),
    [(b"top = 1\nspec = '\xff'\n", "gpuprof.toml:2: not UTF-8"), (b"\xff\xfet\0o\0", "gpuprof.toml:1: not UTF-8")],
)
def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path: Path, data: bytes, told: str) -> None:
    (tmp_path / "gpuprof.toml").write_bytes(data)
    with pytest.raises(InputError, match=f"^{told}$"):
        values(tmp_path)


def test_a_wrong_pyproject_is_told_where_it_speaks_of_gpuprof(tmp_path: Path) -> None:
    put(tmp_path / "pyproject.toml", "[tool]\ngpuprof = 3\n")
    with pytest.raises(InputError, match=r"^pyproject.toml: tool.gpuprof is not a table$"):
        values(tmp_path)
    put(tmp_path / "pyproject.toml", "[tool.gpuprof\n")
    with pytest.raises(InputError, match=r"^pyproject.toml: expected .*line 1"):
        values(tmp_path)
    put(tmp_path / "pyproject.toml", "[tool.gpuprof]\ntop = 'x'\n")
    with pytest.raises(InputError, match=r"^pyproject.toml: top cannot be 'x'$"):
        values(tmp_path)


def test_a_file_that_takes_forever_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "LIMIT_S", 0.2)
    put(tmp_path / "gpuprof.toml", f"a{'.a' * 400_000} = 1")
    with pytest.raises(InputError, match="takes longer than"):
        values(tmp_path)


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    place = put(tmp_path / "gpuprof.toml", "top = 1\n")
    place.chmod(0)
    if os.access(place, os.R_OK):
        pytest.skip("this user may read every file")
    with pytest.raises(InputError, match=r"gpuprof\.toml cannot be read: Permission denied"):
        values(tmp_path)


def test_a_spec_file_is_named_from_the_configuration_s_folder(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    spec = put(tmp_path / "specs" / "mine.yaml", "name: mine\n")
    put(tmp_path / "gpuprof.toml", 'spec = "specs/mine.yaml"\n')
    assert values(tmp_path / "src") == {"spec": "../specs/mine.yaml"}
    put(tmp_path / "gpuprof.toml", f'spec = "{spec}"\n')
    assert values(tmp_path / "src") == {"spec": str(spec)}
    put(tmp_path / "gpuprof.toml", 'spec = "h100-sxm"\n')
    assert values(tmp_path / "src") == {"spec": "h100-sxm"}


# The commands


@pytest.fixture
def report(tmp_path: Path) -> Path:
    place = tmp_path / "a.ncu-rep"
    place.write_bytes(simple_report([("gemm", METRICS), ("fill", METRICS), ("relu", METRICS)]))
    return place


def shown(report: Path, *options: str, environ: Mapping[str, str] | None = None) -> Done:
    done = gpuprof("show", report.name, *options, cwd=report.parent, environ=environ)
    assert done.returncode == 0, done.stderr
    return done


def test_its_values_are_defaults_and_are_told_once(report: Path) -> None:
    put(report.parent / "gpuprof.toml", 'exclude = ["fill", "memset"]\ntop = 1\nset = "full"\n')
    done = shown(report)
    assert done.stderr.startswith("from gpuprof.toml: exclude 2 patterns, top 1\n")
    assert done.stderr.count("gpuprof.toml") == 1 and "matches no kernel" not in done.stderr
    assert "1 kernel is excluded (33 % of the time): --exclude fill" in done.stdout
    assert "… and 1 more kernel, 33 % of the time: --top 0 shows all" in done.stdout


def test_the_command_line_wins(report: Path) -> None:
    put(report.parent / "gpuprof.toml", 'exclude = ["fill"]\ntop = 1\n')
    done = shown(report, "--exclude", "relu", "--top", "0")
    assert "gpuprof.toml" not in done.stderr
    assert "--exclude relu" in done.stdout and "--exclude fill" not in done.stdout
    assert shown(report, "--top", "2").stderr.startswith("from gpuprof.toml: exclude 1 pattern\n")


@each_row("how", ["option", "variable"])
def test_it_can_be_done_without(report: Path, how: str) -> None:
    put(report.parent / "gpuprof.toml", "this is no TOML")
    options = ["--no-config"] if how == "option" else []
    done = shown(report, *options, environ=None if how == "option" else {**os.environ, "GPUPROF_CONFIG": ""})
    assert "excluded" not in done.stdout and "gpuprof.toml" not in done.stderr


def test_a_wrong_file_ends_a_command_before_it_reads(report: Path) -> None:
    put(report.parent / "gpuprof.toml", 'exclude = ["fill"]\ntops = 1\n')
    done = gpuprof("show", "missing.ncu-rep", cwd=report.parent)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == (
        "error: gpuprof.toml: unknown key 'tops'\nhint: there are exclude, top, spec, set, coverage, "
        "compare.fail-on, compare.unclear, compare.accept\n"
    )


def test_hostile_text_is_printed_harmless(report: Path) -> None:
    put(report.parent / "gpuprof.toml", '"\\u001b[31mred" = 1\n')
    assert "\x1b" not in gpuprof("show", report.name, cwd=report.parent).stderr
    put(report.parent / "gpuprof.toml", 'exclude = ["f\\u001b?ill"]\n')
    done = shown(report)
    assert "\x1b" not in done.stdout + done.stderr


def test_help_and_other_commands_leave_it_alone(report: Path) -> None:
    put(report.parent / "gpuprof.toml", "this is no TOML")
    for words in (["--help"], ["show", "--help"], ["specs", "list"], ["--version"], ["run", "--help"]):
        assert gpuprof(*words, cwd=report.parent).returncode == 0, words


def test_report_and_roofline_take_what_they_have(report: Path) -> None:
    put(report.parent / "gpuprof.toml", 'exclude = ["fill"]\ntop = 1\ncoverage = 50\nset = "full"\n')
    for command in ("report", "roofline"):
        done = gpuprof(command, report.name, cwd=report.parent)
        assert done.returncode == 0, done.stderr
        assert done.stderr.startswith("from gpuprof.toml: exclude 1 pattern, top 1\n")
        assert "1 kernel is excluded" in done.stdout


@each_row("command", ["run", "roofline"])
def test_a_program_is_profiled_by_it(bench: Bench, command: str) -> None:
    put(bench.folder / "gpuprof.toml", 'exclude = ["fill"]\nset = "full"\ncoverage = 50\n')
    done = bench.run("--dry-run", command=command)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("from gpuprof.toml: exclude 1 pattern, set full, coverage 50\n")
    assert "--set full" in done.stdout
    assert "--set full" not in bench.run("--dry-run", "--set", "roofline", command=command).stdout


@pytest.mark.skipif(not REPORTS.is_dir(), reason="no real reports lie beside the checkout (../shared/reports)")
def test_the_coverage_of_a_file_is_percent(bench: Bench) -> None:
    put(bench.folder / "gpuprof.toml", "coverage = 30\n")
    bench.steps({"report": str(REPORTS / BASELINE)})
    # The longest of five kernels takes 40 % of the time.
    assert "profile 1 launch of 1 kernel, 40 % of the GPU's time" in bench.run("--plan-only").stdout


def test_the_limits_of_a_gate_are_read_with_those_of_kernels(tmp_path: Path) -> None:
    text = (
        '[compare]\nfail-on = ["time:3%"]\nunclear = "fail"\n[compare.kernels."gemm|conv"]\nfail-on = ["registers"]\n'
    )
    put(tmp_path / "gpuprof.toml", text)
    limits = ["time:3%", "gemm|conv=registers"]
    assert values(tmp_path) == {"compare.fail-on": limits, "compare.unclear": "fail"}
    put(tmp_path / "gpuprof.toml", text.replace('fail-on = ["time:3%"]\n', ""))
    assert values(tmp_path) == {"compare.fail-on": limits[1:], "compare.unclear": "fail"}


def test_a_file_of_accepted_regressions_is_named_from_the_configuration_s_folder(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    put(tmp_path / "gpuprof.toml", '[compare]\naccept = "ci/accepted.toml"\n')
    assert values(tmp_path / "src") == {"compare.accept": "../ci/accepted.toml"}


def test_a_gate_is_held_by_its_limits_and_the_command_line_wins(report: Path) -> None:
    put(report.parent / "gpuprof.toml", '[compare]\nfail-on = ["time:3%", "registers"]\nunclear = "fail"\n')
    again = report.with_name("b.ncu-rep")
    again.write_bytes(report.read_bytes())

    def compared(*options: str) -> Done:
        return gpuprof("compare", report.name, again.name, *options, cwd=report.parent)

    assert compared().stderr.startswith("from gpuprof.toml: compare.fail-on 2 limits, compare.unclear fail\n")
    assert "gate" in compared().stderr and "gate" not in compared("--no-config").stderr
    assert "compare.fail-on" not in compared("--fail-on", "registers").stderr


def test_every_key_is_an_option_of_the_same_name() -> None:
    text = (Path(__file__).parents[1] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert all(f"--{key.rpartition('.')[2]}" in text for key in KEYS)
    page = (Path(__file__).parents[1] / "docs" / "how-to" / "configure.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([\w.-]+)` \|", page, re.MULTILINE) == list(KEYS)
