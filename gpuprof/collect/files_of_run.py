"""The names of the files that a run leaves in its folder, and which reports are parts of one run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

_PROFILE, _ANSWERS = "profile", "profile-2"
SURVEY_FILE, PROFILE_FILE = "survey.ncu-rep", f"{_PROFILE}.ncu-rep"
SURVEY_LOG, PROFILE_LOG = "survey.log", f"{_PROFILE}.log"
ANSWERS_FILE, ANSWERS_LOG = f"{_ANSWERS}.ncu-rep", f"{_ANSWERS}.log"
"""Of the run that answers what the limits of kernels leave open."""
AGAIN = ("-again", "-again-2")
"""What is put behind these names for kernels that did not come as planned in the run before."""
COUNTED_FILES = tuple(f"{stem}{again}.ncu-rep" for stem in (_PROFILE, _ANSWERS) for again in ("", *AGAIN))
COUNTED_LOGS = tuple(f"{stem}{again}.log" for stem in (_PROFILE, _ANSWERS) for again in ("", *AGAIN))
MARKS_FILE = ".gpuprof-marks.json"
"""What our hook is to mark in the program."""
PROGRAM_LOG = "program.log"

_PART = re.compile(rf"(?:{_PROFILE}|(?P<answers>{_ANSWERS}))(?:{'|'.join(AGAIN)})?(?P<rank>\.rank\d+)?\.ncu-repz?")


def parts_of_runs(names: Iterable[str]) -> list[tuple[list[str], list[str]]]:
    """Return the files of each run: what was counted first, and the answers to what that left open.

    Reports are parts of one run of gpuprof if they have its names, are in one folder, and have their logs beside them.
    """
    runs: dict[tuple[str, str | None], tuple[list[str], list[str]]] = {}
    for name in names:
        path = Path(os.path.realpath(name))
        match = _PART.fullmatch(path.name)
        if match is None or not os.path.lexists(path.with_suffix(".log")):
            runs[name, None] = ([name], [])
            continue
        counted, answers = runs.setdefault((str(path.parent), match["rank"]), ([], []))
        (answers if match["answers"] else counted).append(name)
    return list(runs.values())
