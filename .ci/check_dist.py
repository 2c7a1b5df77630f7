"""Checks what `make dist` has built: that wheel and sdist hold every file they should, and what the changelog says.

python .ci/check_dist.py FOLDER
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IN_WHEEL = {
    "gpuprof": "gpuprof",
    "microkernels": "gpuprof/_data/microkernels",
    "recordings": "gpuprof/_data/recordings",
    "specs": "gpuprof/_data/specs",
}
"""Where the folders of a checkout lie in the wheel."""
LEGAL = ("LICENSE", "NOTICE")


def main(folder: Path) -> int:
    """Print every problem; return 1 if there is one."""
    problems = list(problems_of(folder))
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def problems_of(folder: Path) -> Iterator[str]:
    """Yield what is wrong with the one wheel and the one sdist in a folder."""
    version = _version()
    wheel = folder / f"gpuprof_cli-{version}-py3-none-any.whl"
    sdist = folder / f"gpuprof_cli-{version}.tar.gz"
    if {wheel, sdist} != set(folder.iterdir()):
        yield f"{folder} does not hold {wheel.name} and {sdist.name} alone"
        return
    tracked = [Path(name) for name in _git("ls-files", "-z").split("\0") if name]
    data = {file: f"{IN_WHEEL[top]}/{file.relative_to(top)}" for file in tracked if (top := file.parts[0]) in IN_WHEEL}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    licenses = (f"gpuprof_cli-{version}.dist-info/licenses/{name}" for name in LEGAL)
    yield from (f"{wheel.name} lacks {name}" for name in (*data.values(), *licenses) if name not in names)
    foreign = names - set(data.values())
    yield from (f"{wheel.name} has {name}, which is not tracked" for name in foreign if ".dist-info/" not in name)
    with tarfile.open(sdist) as packed:
        names = set(packed.getnames())
    yield from (
        f"{sdist.name} lacks {file}"
        for file in (*data, *map(Path, LEGAL))
        if f"gpuprof_cli-{version}/{file.as_posix()}" not in names
    )
    yield from _changelog(version)


def _changelog(version: str) -> Iterator[str]:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## {re.escape(version)}, \d{{4}}-\d\d-\d\d$", text, re.MULTILINE):
        yield f"CHANGELOG.md has no section `## {version}, YEAR-MONTH-DAY`"


def _version() -> str:
    (version,) = re.findall(r'^__version__ = "(.+)"$', (ROOT / "gpuprof/_version.py").read_text(), re.MULTILINE)
    assert isinstance(version, str)
    return version


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, encoding="utf-8", check=True).stdout


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
