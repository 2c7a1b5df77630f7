"""Review of the compiled kernels of files: resources, loops, memory accesses, findings."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from gpuprof.errors import GpuprofError, InputError
from gpuprof.model.labels import label_kernels
from gpuprof.privacy.border import without_private
from gpuprof.privacy.texts import clean_text
from gpuprof.read.plain_file import known_as
from gpuprof.review.contract import REVIEW_VERSION, Review, ReviewedModule, UnreviewedFile
from gpuprof.review.file_findings import file_findings
from gpuprof.review.inputs.modules import Refused, modules_of
from gpuprof.review.inputs.request import READS, ReviewRequest
from gpuprof.review.kernel import CompiledKernel, InputModule
from gpuprof.review.parallel import Progress, disassemblers_for, reviewed_kernels


def review(
    request: ReviewRequest,
    version: str,
    progress: Progress = lambda *_: None,
    refused: list[GpuprofError] | None = None,
) -> Review:
    """Review the requested files.

    `progress` is called with the bytes of code that are done and their total. With `refused`, files that fail are left
    out and their errors are appended to it. Raises InputError or DamagedInput for a file, and EnvironmentProblem if a
    tool is missing; with `refused` only if no file can be reviewed.
    """
    left_out: list[Refused] = []
    modules = modules_of(request, left_out if refused is not None else None)
    if refused is not None:
        refused += [error for _, error in left_out]
    kernels = _with_labels([kernel for module in modules for kernel in module.kernels], request)
    notes = [note for module in modules for note in module.notes]
    if not kernels and not any(module.form == "ptx" for module in modules):
        files = ", ".join(f"{name:.100}" for name in request.files)
        chosen = f" whose name has {request.kernel.text!r:.80}" if request.kernel is not None else ""
        raise InputError(": ".join((files, f"no kernel{chosen}", *notes[:1])), READS)
    tools = [tool for module in modules for tool in module.tools]
    disassemblers, unread = disassemblers_for(kernels)
    tools += map(str, disassemblers)
    names = {file for file, _ in left_out}
    not_reviewed = [f"not reviewed: {error.message}" for _, error in left_out]
    result = Review(
        schema_version=REVIEW_VERSION,
        gpuprof_version=version,
        files=_files_read(request, modules, names),
        tools=tuple(dict.fromkeys(tools)),
        modules=tuple(
            ReviewedModule(origin=module.origin, target=module.target, form=module.form, kernels=module.holds)
            for module in modules
        ),
        kernels=tuple(reviewed_kernels(kernels, progress)),
        findings=file_findings(modules, request, names),
        unreviewed=tuple(UnreviewedFile(file=file, why=error.message) for file, error in left_out),
        notes=tuple(dict.fromkeys((*unread, *not_reviewed, *notes))),
    )
    return result if request.keep_private else without_private(result, request.path_maps)


def _files_read(request: ReviewRequest, modules: Iterable[InputModule], refused: Container[str]) -> tuple[str, ...]:
    """Return the files that were read, also if they did not compile for all architectures."""
    compiled = {module.origin for module in modules}
    return tuple(name for name in map(known_as, request.files) if name in compiled or name not in refused)


def _with_labels(kernels: Sequence[CompiledKernel], request: ReviewRequest) -> list[CompiledKernel]:
    """Give each kernel its short name. Private text is removed first, because a short name is cut."""
    names = [kernel.name if request.keep_private else clean_text(kernel.name) for kernel in kernels]
    labels = label_kernels(names)
    return [replace(kernel, label=label) for kernel, label in zip(kernels, labels, strict=True)]
