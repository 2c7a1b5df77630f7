"""Which questions about planned kernels are open once their limits are known, and which kernels have none."""

from __future__ import annotations

from collections.abc import Hashable, Set
from dataclasses import dataclass

from msgspec.structs import replace

from gpuprof.collect.counter_sets import CounterSet
from gpuprof.collect.metrics import LAUNCH, TIME, opcodes_give_tensor_work, question_metrics
from gpuprof.collect.plan import PlannedKernel, ProfilePlan
from gpuprof.collect.questions import QUESTIONS, Question, open_questions
from gpuprof.errors import GpuprofError
from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.analyse import Analysis, Recorded
from gpuprof.model.kernel_key import kernel_key
from gpuprof.model.launch_analysis import CHECK_CEILING
from gpuprof.model.product_names import newest_generation
from gpuprof.model.recorded import Missing
from gpuprof.model.session import KernelProfile, Session
from gpuprof.model.torch_ranges import innermost_operator

_MORE = "--set full counts everything"
_TENSOR = 0.05
"""On an H100 the tensor pipe was busy up to 3.3 % in kernels without tensor work, and from 21 % on in attention."""
_HOPPER = 9
"""The generation that brought the first matrix instructions of groups of warps."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Open questions about kernels. `with_limits`: some lack their limits, which are collected with the answers."""

    kernels: tuple[PlannedKernel, ...]
    questions: frozenset[Question]
    with_limits: bool


def asked_about(plan: ProfilePlan, session: Session, arch: ArchSpec, chosen: CounterSet) -> Asked:
    """Return what a counter set still asks about the kernels of a plan; a session has their limits.

    Of a kernel whose limits did not come everything is asked, and its limits are collected too.
    """
    limited: dict[Hashable, list[KernelProfile]] = {}
    for kernel in session.kernels:
        if kernel.throughput:
            limited.setdefault(_work(kernel), []).append(kernel)
    kernels: list[PlannedKernel] = []
    questions: set[Question] = set()
    with_limits = False
    for planned in plan.worth_asking:
        same = limited.get(_planned_work(planned))
        if same is None:
            with_limits = True
            open_ones = {*chosen.questions}
        else:
            open_ones = set().union(*(_questions(kernel, arch, chosen) for kernel in same))
        if open_ones:
            kernels.append(planned)
            questions |= open_ones
    return Asked(tuple(kernels), frozenset(questions), with_limits)


def with_reasons(
    analysis: Analysis, plan: ProfilePlan, asked: Asked, arch: ArchSpec, failure: GpuprofError | None = None
) -> Analysis:
    """Return an analysis in which a kernel that has only its limits says why, instead of listing all that it lacks.

    `failure` ended the run for the answers, if it did not come to a good end.
    """
    answers = frozenset(question_metrics(arch, QUESTIONS)) - {TIME, *LAUNCH}
    works = {_planned_work(kernel) for kernel in asked.kernels}
    worth = {_planned_work(kernel) for kernel in plan.worth_asking}

    def with_reason(kernel: KernelProfile, recorded: Recorded) -> KernelProfile:
        work = _work(kernel)
        if not kernel.throughput or any(map(recorded.launch.metrics.has, answers)):
            return kernel
        how = _MORE
        if work in works and failure is not None:
            why, how = failure.message, failure.hint or _MORE
        elif work in works:
            why = "no launch of it came in the run for that"
        elif work in worth:
            why = "its limits leave nothing open"
        else:
            why = "it takes too little of the time to be asked about"
        wrong = tuple(gap for gap in kernel.missing if gap.how == CHECK_CEILING)
        return replace(kernel, missing=(*wrong, Missing("counters beside its limits", why, how)))

    kernels = map(with_reason, analysis.session.kernels, analysis.recorded)
    return replace(analysis, session=replace(analysis.session, kernels=tuple(kernels)))


def _questions(kernel: KernelProfile, arch: ArchSpec, chosen: CounterSet) -> Set[Question]:
    """Return the questions of a set about a kernel: those that its limits leave open, or all that apply to it."""
    questions = frozenset(chosen.questions) if chosen.asks_all else open_questions(kernel)
    needs_counters = not opcodes_give_tensor_work(arch) and may_use_groups_of_warps(kernel)
    return questions if needs_counters else questions - {"tensor-work"}


def may_use_groups_of_warps(kernel: KernelProfile) -> bool:
    """Return whether a kernel may do tensor work by groups of warps, whose FLOP opcodes do not give."""
    is_used = any(pipe.name == "tensor" and pipe.fraction >= _TENSOR for pipe in kernel.pipes)
    return is_used and (newest_generation(kernel.demangled) or _HOPPER) >= _HOPPER


def _work(kernel: KernelProfile) -> Hashable:
    """Return what identifies the work of a kernel, the same from whichever tool it comes."""
    return kernel_key(kernel.demangled), kernel.grid, kernel.block, innermost_operator(kernel.ranges)


def _planned_work(kernel: PlannedKernel) -> Hashable:
    return kernel_key(kernel.demangled), kernel.shape.grid, kernel.shape.block, kernel.shape.operator
