"""`gpuprof.toml` and `[tool.gpuprof]`: where they are found, what may be in them, and that the command line wins."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuprof.cli.config_file import KEYS, find_config
from gpuprof.errors import InputError
from tests.cli import Done, gpuprof
from tests.ncu_bytes import simple_report
from tests.table import each_row
from tests.test_run import bench

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


def test_a_pyproject_counts_where_it_speaks_of_gpuprof(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    put(tmp_path / "pyproject.toml", "[tool.gpuprof]\ntop = 1\n")
    put(tmp_path / "a" / "pyproject.toml", '[project]\nname = "x"\ndependencies = ["gpuprof-cli"]\n')
    put(tmp_path / "a" / "b" / "pyproject.toml", "this is no TOML")
    assert values(tmp_path / "a" / "b") == {"top": 1}
    put(tmp_path / "gpuprof.toml", "top = 2\n")
    assert values(tmp_path / "a" / "b") == {"top": 2}


def test_a_variable_names_it_or_does_without(tmp_path: Path) -> None:
    put(tmp_path / "gpuprof.toml", "top = 1\n")
    other = put(tmp_path / "other" / "mine.toml", "top = 2\n")
    put(tmp_path / "pyproject.toml", "[project]\n")
    assert values(tmp_path, {"GPUPROF_CONFIG": str(other)}) == {"top": 2}
    assert values(tmp_path, {"GPUPROF_CONFIG": ""}) is None
    for name in ("none.toml", "/dev/null", "pyproject.toml"):
        with pytest.raises(InputError, match=f"GPUPROF_CONFIG: {name}"):
            values(tmp_path, {"GPUPROF_CONFIG": name})


WRONG = [
    "exclud = []", '"\\u001b[31m" = 1', 'exclude = "fill"', "exclude = [1]", 'exclude = [""]', 'exclude = ["("]',
    'exclude = ["#3"]', "top = -1", "top = true", "top = 2.0", f"top = {2**70}", "set = []", 'set = "fll"',
    "coverage = 0", "coverage = 100.1", "coverage = nan", "coverage = inf", "coverage = true", "spec = 1979-05-27",
    'spec = ""', 'spec = "a\\u0000b"', 'spec = "specs/none.yaml"', 'ncu = "./evil"', "[run]\nset = 'full'",
    "compare = 3", "[compare]\nfail-on = 'time:3%'", "[compare]\nfail-on = ['time:3']",
    "[compare]\nfail-on = ['tme:3%']", "[compare]\nfail-on = ['time:3%', 'time:4%']",
    "[compare]\nfailon = ['time:3%']", "[compare]\nunclear = true", "[compare]\nunclear = 'maybe'",
    "[compare]\naccept = ''", "[compare]\noutput = 'x'", "[compare]\nkernels = ['gemm']",
    "[compare.kernels]\ngemm = 'time:3%'", "[compare.kernels.gemm]\nfail = []",
    "[compare.kernels.gemm]\nfail-on = ['x=time:3%']", "[compare.kernels.'(']\nfail-on = ['time']",
    "[compare.kernels.'#3']\nfail-on = ['time']", '"compare.fail-on" = ["time"]', "top = \n", "top = 1\ntop = 2\n",
    f"top = {'9' * 5000}", f"top = {'[' * 100_000}", "exclude = [" + '"x",' * 400_000 + "]",
]  # fmt: skip


@each_row("text", WRONG, ids=lambda text: text[:20])
def test_what_is_wrong_is_told_with_the_file(tmp_path: Path, text: str) -> None:
    put(tmp_path / "gpuprof.toml", text)
    with pytest.raises(InputError) as raised:
        values(tmp_path)
    assert re.match(r"gpuprof\.toml:? ", raised.value.message)
    assert raised.value.hint and len(raised.value.message) < 300


def test_what_is_no_table_or_text_is_told_with_file_and_line(tmp_path: Path) -> None:
    for data, line in ((b"top = 1\nspec = '\xff'\n", 2), (b"\xff\xfet\0o\0", 1)):
        (tmp_path / "gpuprof.toml").write_bytes(data)
        with pytest.raises(InputError, match=rf"^gpuprof\.toml:{line}: "):
            values(tmp_path)
    put(tmp_path / "gpuprof.toml", "[tool.gpuprof]\ntop = 3\n")
    with pytest.raises(InputError) as caught:
        values(tmp_path)
    assert caught.value.hint is not None and "[tool.gpuprof]" in caught.value.hint
    (tmp_path / "gpuprof.toml").unlink()
    for text in ("[tool]\ngpuprof = 3\n", "[tool.gpuprof\n", "[tool.gpuprof]\ntop = 'x'\n"):
        put(tmp_path / "pyproject.toml", text)
        with pytest.raises(InputError, match=r"^pyproject\.toml: "):
            values(tmp_path)


def test_a_file_it_names_is_looked_for_from_the_configuration_s_folder(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    spec = put(tmp_path / "specs" / "mine.yaml", "name: mine\n")
    for named, told in (("specs/mine.yaml", "../specs/mine.yaml"), (spec, str(spec)), ("h100-sxm", "h100-sxm")):
        put(tmp_path / "gpuprof.toml", f'spec = "{named}"\n')
        assert values(tmp_path / "src") == {"spec": told}
    put(tmp_path / "gpuprof.toml", '[compare]\naccept = "ci/accepted.toml"\n')
    assert values(tmp_path / "src") == {"compare.accept": "../ci/accepted.toml"}


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


def test_the_command_line_wins(report: Path) -> None:
    put(report.parent / "gpuprof.toml", 'exclude = ["fill"]\ntop = 1\n')
    done = shown(report, "--exclude", "relu", "--top", "0")
    assert "gpuprof.toml" not in done.stderr
    assert "--exclude relu" in done.stdout and "--exclude fill" not in done.stdout
    assert re.match(r"from gpuprof\.toml: exclude 1 \w+\n", shown(report, "--top", "2").stderr)


def test_it_can_be_done_without_and_a_wrong_file_ends_a_command_before_it_reads(report: Path) -> None:
    put(report.parent / "gpuprof.toml", 'exclude = ["fill"]\ntops = 1\n')
    for options, environ in ((["--no-config"], None), ([], {**os.environ, "GPUPROF_CONFIG": ""})):
        done = shown(report, *options, environ=environ)
        assert "excluded" not in done.stdout and "gpuprof.toml" not in done.stderr
    done = gpuprof("show", "missing.ncu-rep", cwd=report.parent)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith("error: gpuprof.toml: ") and "'tops'" in done.stderr
    assert all(key in done.stderr.partition("hint: ")[2] for key in KEYS)
    for line in ("--help", "show --help", "specs list", "--version", "run --help"):
        assert gpuprof(*line.split(), cwd=report.parent).returncode == 0, line


def test_hostile_text_is_printed_harmless(report: Path) -> None:
    put(report.parent / "gpuprof.toml", '"\\u001b[31mred" = 1\n')
    assert "\x1b" not in gpuprof("show", report.name, cwd=report.parent).stderr
    put(report.parent / "gpuprof.toml", 'exclude = ["f\\u001b?ill"]\n')
    done = shown(report)
    assert "\x1b" not in done.stdout + done.stderr


def test_a_gate_is_held_by_its_limits_and_the_command_line_wins(report: Path) -> None:
    put(report.parent / "gpuprof.toml", '[compare]\nfail-on = ["time:3%", "registers"]\nunclear = "fail"\n')
    again = report.with_name("b.ncu-rep")
    again.write_bytes(report.read_bytes())

    def compared(*options: str) -> Done:
        return gpuprof("compare", report.name, again.name, *options, cwd=report.parent)

    assert re.match(r"from gpuprof\.toml: compare.fail-on 2 \w+, compare.unclear fail\n", compared().stderr)
    assert "gate" in compared().stderr and "gate" not in compared("--no-config").stderr
    assert "compare.fail-on" not in compared("--fail-on", "registers").stderr


def test_every_key_is_an_option_of_the_same_name() -> None:
    text = (Path(__file__).parents[1] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert all(f"--{key.rpartition('.')[2]}" in text for key in KEYS)
    page = (Path(__file__).parents[1] / "docs" / "how-to" / "configure.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([\w.-]+)` \|", page, re.MULTILINE) == list(KEYS)
