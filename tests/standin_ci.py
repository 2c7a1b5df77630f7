"""Stand-ins for the programs that the configurations of CI call: each does what the shell lines need of it.

`SERVICE` names a folder: `runs/NUMBER/NAME` are artifacts, `comments.json` the comments by their number, `packages` the
package registry. `gpuprof` is gpuprof, but that a second recording is a copy of the first.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

_GPUPROF = """#!/bin/sh
recorded="$SERVICE/recorded.json"
if [ "$1" = run ] && [ -f "$recorded" ]; then
  mkdir -p "$3" && cp "$recorded" "$3/session.json"
  exit
fi
"{python}" -m gpuprof "$@" || exit
if [ "$1" = run ]; then cp "$3/session.json" "$recorded"; fi
"""
_MAKE = """#!/bin/sh
if [ "$1" = -C ]; then cd "$2" || exit; fi
printf '#!/bin/sh\\n' >app && chmod +x app
"""
_SELF = """#!/bin/sh
exec "{python}" -m tests.standin_ci {name} "$@"
"""
_TEXTS = {
    "gpuprof": _GPUPROF, "make": _MAKE, "pip": "#!/bin/sh\n", "python": '#!/bin/sh\nexec "{python}" "$@"\n',
    "gh": _SELF, "curl": _SELF,
}  # fmt: skip


def install(service: Path) -> None:
    """Write the stand-ins into SERVICE/bin."""
    folder = service / "bin"
    folder.mkdir(parents=True)
    for name, text in _TEXTS.items():
        file = folder / name
        file.write_text(text.format(python=sys.executable, name=name))
        file.chmod(0o755)
    (folder / "ncu").symlink_to(Path(__file__).with_name("standin_ncu.py"))


def gh(words: list[str], service: Path) -> str:
    """GitHub's command line: runs, their artifacts, and comments of a pull request."""
    if words[:2] == ["run", "list"]:
        assert _after(words, "--branch") == "main" and _after(words, "--event") == "push"
        numbers = sorted((int(folder.name) for folder in (service / "runs").glob("*")), reverse=True)
        return "\n".join(map(str, numbers))
    if words[:2] == ["run", "download"]:
        shutil.copytree(service / "runs" / words[2] / _after(words, "--name"), _after(words, "--dir"))
    elif "--method" in words:
        body = _after(words, "-F").removeprefix("body=@")
        _write(service, _after(words, "--method"), words[words.index("--method") + 2], Path(body).read_text())
    elif words[-3].endswith("/comments"):
        assert "github-actions[bot]" in words[-1] and "<!-- gpuprof-compare -->" in words[-1]
        return "\n".join(_ours(service))
    else:
        number = words[1].split("/")[-2]
        if (service / "runs" / number / "gpuprof-baseline").is_dir():
            return f"{9000 + int(number)}\n"
    return ""


def curl(words: list[str], service: Path) -> str:
    """GitLab's API: a file of the package registry, and notes of a merge request."""
    address = next(word for word in words if word.startswith("https://"))
    package = service / "packages" / address.rpartition("/")[2]
    if "--upload-file" in words:
        package.parent.mkdir(exist_ok=True)
        shutil.copyfile(_after(words, "--upload-file"), package)
    elif "--write-out" in words:
        if package.exists():
            shutil.copyfile(package, _after(words, "--output"))
        return "200" if package.exists() else os.environ.get("REFUSAL", "404")
    elif "--request" in words:
        body = _after(words, "--data-urlencode").removeprefix("body@")
        _write(service, _after(words, "--request"), address, Path(body).read_text())
    else:
        return json.dumps([{"id": int(number), "body": body} for number, body in _comments(service).items()])
    return ""


def _write(service: Path, method: str, address: str, body: str) -> None:
    """Write a new comment, or the text of one that is there."""
    comments = _comments(service)
    number = str(100 + len(comments)) if method == "POST" else address.rpartition("/")[2]
    assert (number in comments) == (method != "POST"), address
    (service / "comments.json").write_text(json.dumps({**comments, number: body}))


def _comments(service: Path) -> dict[str, str]:
    file = service / "comments.json"
    return json.loads(file.read_text()) if file.exists() else {}


def _ours(service: Path) -> list[str]:
    return [number for number, body in _comments(service).items() if body.startswith("<!-- gpuprof-compare -->")]


def _after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


_PROGRAMS: Mapping[str, Callable[[list[str], Path], str]] = {"gh": gh, "curl": curl}

if __name__ == "__main__":
    sys.stdout.write(_PROGRAMS[sys.argv[1]](sys.argv[2:], Path(os.environ["SERVICE"])))
