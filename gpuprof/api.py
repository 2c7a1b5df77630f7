"""What Python programs use: `gpuprof.load(path)` gives a session that shows itself in notebooks.

`gpuprof.check(file)` reviews compiled kernels. `gpuprof.compare` is in `api_compare`, which takes a while to import.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from gpuprof._version import __version__
from gpuprof.collect.files_of_run import parts_of_runs
from gpuprof.diagnose.diagnose import diagnose
from gpuprof.diagnose.summary import grouped, with_verdict
from gpuprof.errors import InputError
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware_finder import HardwareFinder, gpu_named
from gpuprof.model.analyse import Recorded, analyse, spec_session
from gpuprof.model.answers import with_answers
from gpuprof.model.recorded import Report
from gpuprof.model.session import KernelProfile, Session
from gpuprof.notebook import LoadedSession
from gpuprof.privacy.border import with_clean_labels, without_private
from gpuprof.privacy.source_files import PathMap
from gpuprof.read.files import read_file
from gpuprof.read.folders import files_named, with_ranks
from gpuprof.read.plain_file import STDIN
from gpuprof.timeline.analysis import analyse_traces
from gpuprof.timeline.trace import Trace
from gpuprof.words.session import worded

if TYPE_CHECKING:
    from gpuprof.annotated.listing import Listing
    from gpuprof.review.contract import Review
    from gpuprof.review.options import GivenSize


def load(
    *paths: str | os.PathLike[str],
    spec: str | None = None,
    salvage: bool = False,
    groups: bool = False,
    keep_private: bool = False,
) -> LoadedSession:
    """Read reports, what ncu prints, timelines or a session and analyse them. Parts of one run are put together.

    A folder means the traces in it if they are those of the ranks of one run.
    With `groups` equal launches (same name, configuration and ranges) are one kernel, for which the launch of median
    duration speaks, of the size that takes most time: much faster where a report has thousands. `spec` names a GPU
    spec, or a spec file, to use instead of the one that matches. `salvage` shows what can be read of damaged reports.
    `keep_private` keeps what is left out otherwise: arguments, environment, hosts, users, folders, tokens in names.
    Raises a GpuprofError (InputError, DamagedInput, SpecError …) with a hint.
    """
    return load_recorded(*paths, spec=spec, salvage=salvage, groups=groups, keep_private=keep_private).session


class Loaded(NamedTuple):
    """A session and what its kernels were made from, by number; empty where files keep no more than the session."""

    session: LoadedSession
    recorded: Mapping[int, Recorded]


def load_recorded(
    *paths: str | os.PathLike[str],
    spec: str | None = None,
    salvage: bool = False,
    groups: bool = False,
    keep_private: bool = False,
    path_maps: Sequence[PathMap] = (),
) -> Loaded:
    """Load as `load` does, and return the recorded launches as well, because a session does not hold their code.

    `path_maps` map source folders of the reports to folders in the repository. The recorded launches are not cleaned.
    """
    session, recorded = _recorded(paths, spec=spec, salvage=salvage, groups=groups, keep_private=keep_private)
    return Loaded(LoadedSession.of(session if keep_private else without_private(session, path_maps)), recorded)


def _recorded(
    paths: Sequence[str | os.PathLike[str]], *, spec: str | None, salvage: bool, groups: bool, keep_private: bool
) -> tuple[Session, Mapping[int, Recorded]]:
    if not paths:
        raise InputError("no file given", "name a report: gpuprof show REPORT.ncu-rep")
    names = files_named([os.fspath(path) for path in paths])
    refuse_twice(names)
    files = [read_file(name, salvage=salvage, groups=groups) for name in names]
    traces = [file for file in files if isinstance(file, Trace)]
    if traces:
        if len(traces) < len(files):
            raise InputError(
                "timelines and reports with counters cannot be shown together",
                "show them separately, or profile by the timeline: gpuprof run --survey TIMELINE -- PROGRAM",
            )
        analysis = analyse_traces(with_ranks(traces), HardwareFinder(spec), __version__)
        return worded(diagnose(analysis if keep_private else with_clean_labels(analysis))), {}
    sessions = [file for file in files if isinstance(file, Session)]
    if sessions:
        if len(files) > 1:
            raise InputError(
                "a session cannot be combined with other files",
                "show it alone, or its reports; to compare two runs: gpuprof compare BASE NEW",
            )
        session = grouped(sessions[0]) if groups else sessions[0]
        return worded(with_verdict(session)), {}
    read = {name: file for name, file in zip(names, files, strict=True) if isinstance(file, Report)}
    reports: list[Report] = []
    for part in parts_of_runs(names):
        counted, answers = ([read[name] for name in some] for some in part)
        reports += with_answers(counted, answers) if counted and answers else (*counted, *answers)
    analysis = analyse(reports, HardwareFinder(spec), __version__, one_of_a_kind=groups)
    numbers = (kernel.id for kernel in analysis.session.kernels)
    session = worded(diagnose(analysis if keep_private else with_clean_labels(analysis)))
    return session, dict(zip(numbers, analysis.recorded, strict=True))


def listing(
    *paths: str | os.PathLike[str],
    kernel: int,
    spec: str | None = None,
    salvage: bool = False,
    keep_private: bool = False,
) -> Listing:
    """Return the machine code of a kernel of reports, by its number, with what was counted at each instruction.

    `keep_private` as for `load`. Raises a GpuprofError: InputError where there is no such kernel, or no code and no
    counts of it.
    """
    loaded = load_recorded(*paths, spec=spec, salvage=salvage, keep_private=keep_private)
    return listing_in(loaded.session, loaded.session.kernel(kernel), loaded.recorded, keep_private=keep_private)


def listing_in(
    session: Session, kernel: KernelProfile, recorded: Mapping[int, Recorded], *, keep_private: bool
) -> Listing:
    """Return the machine code of a loaded kernel. Raises as `listing` does."""
    from gpuprof.annotated.listing import listing_of

    listing = listing_of(session, kernel, recorded.get(kernel.id))
    return listing if keep_private else without_private(listing)


def check(
    *files: str | os.PathLike[str],
    arch: str | Iterable[str] = (),
    kernel: str | None = None,
    block: GivenSize | None = None,
    grid: GivenSize | None = None,
    dynamic_shared: str | int | None = None,
    args: Mapping[str | int, int] | None = None,
    defines: Iterable[str] = (),
    include: Iterable[str | os.PathLike[str]] = (),
    std: str | None = None,
    flags: Iterable[str] = (),
    compile_commands: str | os.PathLike[str] | None = None,
    file: str | None = None,
    torch: bool = False,
    compile_timeout: float = 60.0,
    compile_memory: str | int = "2GB",
    salvage: bool = False,
    keep_private: bool = False,
    base: Iterable[str | os.PathLike[str]] = (),
    fail_on: Iterable[str] = (),
    unclear: Literal["pass", "fail"] = "pass",
) -> Review:
    """Review compiled kernels without a GPU: sources, PTX, cubins, programs, libraries, Triton's cache, reports.

    `arch` names architectures to compile for or to choose ("sm_90"); `kernel` is an expression that names have, or
    "#N". `block`, `grid` and `dynamic_shared` say how kernels are launched, `args` the values of arguments by name,
    place or part ("n", 3, "in.stride", "in+8"). `defines` ("N=4096"), `include`, `std` ("c++20") and `flags`
    ("-use_fast_math") are for compilers, which take `compile_timeout` seconds and `compile_memory` at most for a source
    and an architecture. `compile_commands` names the database of a build, whose CUDA sources are reviewed with their
    own flags (`file`: those that the pattern matches); `torch` adds the headers and flags of PyTorch's extensions.
    `salvage` reviews what can be read of damaged reports. `keep_private` keeps folders, and secrets in names, which are
    left out otherwise. `base` are files of another build to compare with, `fail_on` limits as --fail-on takes them: the
    review then has `changes` and a `gate`. Raises a GpuprofError: InputError, DamagedInput, EnvironmentProblem if a
    tool is missing, UsageError for what an argument cannot be.
    """
    from gpuprof.review.gate import gated_review
    from gpuprof.review.options import request_of
    from gpuprof.review.review import review

    request = request_of(
        files,
        arch=arch,
        kernel=kernel,
        block=block,
        grid=grid,
        dynamic_shared=dynamic_shared,
        args=args or {},
        defines=defines,
        include=include,
        std=std,
        flags=flags,
        compile_commands=compile_commands,
        file=file,
        torch=torch,
        compile_timeout=compile_timeout,
        compile_memory=compile_memory,
        salvage=salvage,
        keep_private=keep_private,
    )
    return gated_review(
        request, lambda request: review(request, __version__), base=base, fail_on=fail_on, unclear=unclear
    )


def load_spec(name: str) -> LoadedSession:
    """Return a session without kernels: the rated ceilings of a GPU spec or spec file. Raises InputError if unknown."""
    return LoadedSession.of(without_private(spec_session(gpu_named(name, SpecLibrary()), __version__)))


def refuse_twice(names: list[str]) -> None:
    """Raise InputError if a file is named twice: its time would count twice."""
    places = [os.path.realpath(name) if name != STDIN else name for name in names]
    for index, place in enumerate(places):
        if place in places[:index]:
            raise InputError(f"{names[index]} is given twice", "name each file once")
