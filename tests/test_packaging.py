"""What a release and a run of CI rest on: exact versions for each Python, and built packages that hold every file."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.table import each_row

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
PYTHONS = WORKFLOW["jobs"]["linux"]["strategy"]["matrix"]["python"]


def lines_of(file: str) -> Iterator[str]:
    """The lines of a file of constraints that are no comments."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return (line for line in text.splitlines() if not line.startswith("#"))


def test_ci_tries_every_python_from_the_oldest_that_is_supported_and_the_pins_are_checked_for_the_same() -> None:
    supported = SpecifierSet(PROJECT["requires-python"])
    assert [f"3.{minor}" for minor in range(15) if f"3.{minor}" in supported] == PYTHONS
    (checked,) = re.findall(r"^PYTHONS := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert checked.split() == PYTHONS


@each_row("system", ["linux", "darwin"])
@each_row("python", PYTHONS)
def test_every_requirement_has_one_pinned_version_that_it_allows(python: str, system: str) -> None:
    here = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": system}

    def applies(requirement: Requirement) -> bool:
        return requirement.marker is None or requirement.marker.evaluate(here)

    pins = [pin for pin in map(Requirement, lines_of("constraints.txt")) if applies(pin)]
    versions = {pin.name: re.sub("^==", "", str(pin.specifier)) for pin in pins}
    assert len(versions) == len(pins)
    wanted = map(Requirement, [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]])
    needed = {requirement.name.lower(): requirement.specifier for requirement in wanted if applies(requirement)}
    assert {name for name in needed if name not in versions} == set(), "make constraints"
    assert {name for name, allowed in needed.items() if versions[name] not in allowed} == set(), "make constraints"


PIN = re.compile(r"[a-z0-9.-]+==[\w.+]+( ; [^\\]*)?$")


@each_row("file", ["constraints.txt", ".ci/constraints-torch.txt"])
def test_pins_are_exact_and_name_no_place(file: str) -> None:
    assert [line for line in lines_of(file) if not PIN.match(line)] == []


@each_row("file", ["lock.txt", "lock-dev.txt"])
def test_locks_have_the_pinned_versions_each_with_its_hashes_and_name_no_place(file: str) -> None:
    pins = set()
    for entry in "\n".join(lines_of(file)).replace(" \\\n    ", "\0").splitlines():
        pin, *hashes = entry.split("\0")
        assert hashes, pin
        assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", part) for part in hashes), pin
        pins.add(re.sub(r"\[.*\]", "", pin))
    constraints = set(lines_of("constraints.txt"))
    if file == "lock-dev.txt":
        assert pins == constraints
    versions = {re.sub(" ;.*", "", pin) for pin in pins}
    assert versions <= {re.sub(" ;.*", "", pin) for pin in constraints}


def test_every_download_of_ci_has_hashes_and_make_takes_nothing_but_the_locks() -> None:
    downloads = re.findall(r"[a-z0-9-]+==[0-9.]+", (ROOT / ".ci/run").read_text(encoding="utf-8"))
    hashed = (ROOT / ".ci/hashes.txt").read_text(encoding="utf-8")
    assert len(downloads) == 4
    assert [
        name for name in downloads if not re.search(rf"^{re.escape(name)} \\\n    --hash", hashed, re.MULTILINE)
    ] == []
    for step in (".venv/.runs", ".venv/.tests"):
        typed = subprocess.run(
            ["make", "--dry-run", "--always-make", step], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        installs = [line for line in typed.splitlines() if "pip install" in line]
        assert installs
        assert [line for line in installs if "--require-hashes" not in line and "--no-deps" not in line] == []


def test_actions_are_pinned_by_commit() -> None:
    steps = [step for job in WORKFLOW["jobs"].values() for step in job["steps"] if "uses" in step]
    assert steps
    assert [step["uses"] for step in steps if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"])] == []


def test_installing_gpuprof_brings_no_proprietary_package_and_the_extras_for_code_bring_some() -> None:
    base = installed_by(PROJECT["dependencies"])
    assert len(base) > len(PROJECT["dependencies"]) - 2, "what dependencies bring is among them"
    assert [name for name in base if is_proprietary(name)] == []
    extras = PROJECT["optional-dependencies"]
    assert "ncu-report" in {Requirement(line).name for line in extras["dev"]} and is_proprietary("ncu-report")
    assert all(is_proprietary(name) for name in installed_by(extras["check"]))


def installed_by(requirements: Iterable[str]) -> set[str]:
    """The distributions that these requirements bring here, and what those require."""
    names: set[str] = set()
    left = [Requirement(line) for line in requirements]
    while left:
        requirement = left.pop()
        name = requirement.name.lower()
        if name in names or not (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            continue
        names.add(name)
        left += map(Requirement, metadata.requires(name) or ())
    return names


def is_proprietary(name: str) -> bool:
    """Whether a distribution says so of its licence, or says nothing of it."""
    told = metadata.metadata(name)
    classifiers = [line for line in told.get_all("Classifier", []) if line.startswith("License ::")]
    texts = [*told.get_all("License-Expression", []), *told.get_all("License", []), *classifiers]
    return not any(texts) or any(re.search("proprietary|nvidia", text, re.IGNORECASE) for text in texts)


# What `make dist` checks


@pytest.fixture
def check_dist() -> ModuleType:
    """The script that looks at what was built."""
    spec = importlib.util.spec_from_file_location("check_dist", ROOT / ".ci/check_dist.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path, check_dist: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of version 1.2.0 with a file of code and one of data."""
    (tmp_path / "gpuprof").mkdir()
    (tmp_path / "gpuprof/_version.py").write_text('__version__ = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 1.2.0, 2026-01-31\n")
    monkeypatch.setattr(check_dist, "ROOT", tmp_path)
    monkeypatch.setattr(check_dist, "_git", lambda *_: "gpuprof/_version.py\0specs/gpu/x.yaml\0NOTICE\0tests/x.py\0")
    return tmp_path


def built(folder: Path, wheel: set[str], sdist: set[str]) -> Path:
    """A folder with a wheel and an sdist of 1.2.0 that hold these files, empty."""
    folder.mkdir()
    with zipfile.ZipFile(folder / "gpuprof_cli-1.2.0-py3-none-any.whl", "w") as archive:
        for name in wheel:
            archive.writestr(name, "")
    with tarfile.open(folder / "gpuprof_cli-1.2.0.tar.gz", "w:gz") as packed:
        for name in sdist:
            packed.addfile(tarfile.TarInfo(f"gpuprof_cli-1.2.0/{name}"))
    return folder


WHEEL = {"gpuprof/_version.py", "gpuprof/_data/specs/gpu/x.yaml"} | {
    f"gpuprof_cli-1.2.0.dist-info/licenses/{name}" for name in ("LICENSE", "NOTICE")
}
SDIST = {"gpuprof/_version.py", "specs/gpu/x.yaml", "LICENSE", "NOTICE"}


def test_packages_that_hold_everything_pass(checkout: Path, check_dist: ModuleType) -> None:
    assert list(check_dist.problems_of(built(checkout / "dist", WHEEL, SDIST))) == []


@pytest.mark.parametrize("name", sorted(WHEEL))
def test_a_wheel_that_lacks_a_file_is_refused(checkout: Path, check_dist: ModuleType, name: str) -> None:
    (problem,) = check_dist.problems_of(built(checkout / "dist", WHEEL - {name}, SDIST))
    assert problem.endswith(f"whl lacks {name}")


@pytest.mark.parametrize("name", sorted(SDIST))
def test_an_sdist_that_lacks_a_file_is_refused(checkout: Path, check_dist: ModuleType, name: str) -> None:
    (problem,) = check_dist.problems_of(built(checkout / "dist", WHEEL, SDIST - {name}))
    assert problem.endswith(f"tar.gz lacks {name}")
