"""A report as NVIDIA's reader gives it: for what gpuprof's own does not know, and for the text of code.

`Any` appears here because ncu_report has no types; it does not leave this file.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Any

from gpuprof.code.tools.named_bytes import NamedBytes
from gpuprof.errors import DamagedInput, EnvironmentProblem
from gpuprof.model.recorded import RuleResult
from gpuprof.read.container import AGAIN, PAYLOAD_SIZE, PROCESS, SESSION, STRINGS, RawBlock, raw_blocks
from gpuprof.read.file_bytes import Bytes
from gpuprof.read.metric_values import Instance, MetricValue
from gpuprof.read.native_guard import FILE, prime, quiet, start
from gpuprof.read.nvtx_state import names_in_domain
from gpuprof.read.protobuf import Malformed, raw_fields
from gpuprof.read.wire import number, prefixed

NATIVE_ERRORS = (AttributeError, IndexError, MemoryError, OverflowError, RuntimeError, TypeError, ValueError)
"""What the native reader's bindings raise on values that do not make sense."""
_TRIED_LAUNCHES = 500
_RULE_KINDS = {0: "none", 1: "ok", 2: "optimization", 3: "warning", 4: "error"}


class NativeReport:
    """The launches of a report. They are loaded when they are asked for, after a child has survived that.

    `launches` is how many there have to be at least, where that is known: of fewer, a number would mean another launch.
    Of a file that is cut off the reader counts those behind the cut, too.
    """

    def __init__(self, file: str, data: Bytes, launches: int | None = None) -> None:
        self.columns: dict[str, int] = {}
        self._file = file
        self._data = data
        self._launches = launches
        self._read: set[int] = set()
        self._failure: DamagedInput | None = None

    def lists(self, name: str) -> bool:  # noqa: ARG002
        """Tell that a metric of any name can be in the report."""
        return True

    @cached_property
    def actions(self) -> Sequence[Any]:
        """NVIDIA's objects of all launches. Raises DamagedInput where its reader does not survive the file."""
        if self._failure is not None:
            raise self._failure
        try:
            return self._loaded()
        except DamagedInput as failure:
            self._failure = failure  # to find that out again takes a child, and a loading of the whole file
            raise

    def _loaded(self) -> Sequence[Any]:
        ncu_report = import_ncu_report()
        opened = NamedBytes(self._data[:], FILE)
        trial = start(lambda: _touch(ncu_report, opened.path))
        prime(ncu_report)
        with quiet():
            fate = trial.outcome()
            if fate is not None:
                raise self._damaged(f"{fate} on it")
            self._opened = opened
            actions = list(_each_action(ncu_report.load_report(opened.path)))
        if self._launches is not None and len(actions) < self._launches:
            raise self._damaged(f"finds {len(actions)} of its {self._launches} kernels")
        return actions

    def reads(self, launch: int) -> bool:
        """Tell whether the reader finds a launch and what is in it: of a block with damage it only counts them."""
        action, kind = self.actions[launch], import_ncu_report().IAction.NameBase_FUNCTION
        return self._asked("its name", lambda: action.name(kind)) is not None

    def values(self, launch: int, names: Iterable[str]) -> Iterator[MetricValue]:
        """Yield the values of metrics as they are recorded. Raises DamagedInput where the reader fails on one."""
        for name in names:
            yield self._asked(name, partial(_value, self._action(launch), name))

    def instances(self, launch: int, name: str) -> list[Instance]:
        """Return the instances of a metric. Raises DamagedInput where the reader fails on it."""
        listed: list[Instance] = self._asked(name, partial(_instances, self._action(launch), name))
        return listed

    def has(self, launch: int, name: str) -> bool:
        """Tell whether a launch has a metric of that name, with a value or without."""
        return bool(self._asked(name, lambda: self._action(launch).metric_by_name(name) is not None))

    def names(self, launch: int) -> tuple[str, ...]:
        """Return the names of the metrics of a launch."""
        listed: list[Any] = self._asked("its names", lambda: [*self._action(launch).metric_names()])
        return tuple(name for name in listed if isinstance(name, str))

    def rules(self, launch: int) -> tuple[RuleResult, ...]:
        """Return the results of NVIDIA's rules."""
        action = self._action(launch)
        results: list[RuleResult] = self._asked("rules", lambda: [*map(_rule, action.rule_results_as_dicts())])
        return tuple(results)

    def _action(self, launch: int) -> Any:
        if launch not in self._read:
            if not self.reads(launch):
                raise self._damaged(f"finds nothing of launch {launch}")
            self._read.add(launch)
        return self.actions[launch]

    def _asked(self, name: str, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except NATIVE_ERRORS as error:
            raise self._damaged(f"fails on {name}: {error}") from error

    def _damaged(self, said: str) -> DamagedInput:
        return DamagedInput(f"{self._file} is damaged: NVIDIA's report reader {said}", AGAIN)


class FewActions(Sequence[Any]):
    """The launches of a report for the text of their code: of each kernel one, loaded when the first is asked for.

    `data` is the report; `places` tell for each launch where the message of the one lies that stands for it.
    """

    def __init__(self, data: Bytes, places: Sequence[int]) -> None:
        self.data = data
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, launch: Any) -> Any:
        return self._loaded[self._places[launch]]

    @cached_property
    def _loaded(self) -> dict[int, Any]:
        chosen = sorted(set(self._places))
        self._opened = NamedBytes(excerpt(self.data, chosen), FILE)
        with quiet():
            actions = _each_action(import_ncu_report().load_report(self._opened.path))
            return dict(zip(chosen, actions, strict=True))


def import_ncu_report() -> Any:
    """Return NVIDIA's module. Raises EnvironmentProblem where it is not installed."""
    try:
        import ncu_report
    except ImportError as error:
        raise EnvironmentProblem(
            f"NVIDIA's report reader cannot be imported: {error}",
            "pip install ncu-report; or export the report as CSV",
        ) from error
    return ncu_report


def excerpt(data: Bytes, places: Iterable[int], programs: Container[int] | None = None) -> bytes:
    """Return a report with the launches whose messages lie at some places of another, and with all its programs.

    `programs`: with those alone whose messages lie there. What lies behind damage is left out.
    """
    return b"".join(_pieces(data, frozenset(places), programs))


def _pieces(data: Bytes, chosen: frozenset[int], programs: Container[int] | None) -> Iterator[bytes]:
    for block in _whole_blocks(data):
        kernels = [span for span in block.kernels if span[0] in chosen]
        sources = [span for span in block.sources if programs is None or span[0] in programs]
        header = data[slice(*block.header)]
        kept = [header[first:last] for field, first, last in raw_fields(header) if field in (SESSION, STRINGS, PROCESS)]
        payload = b"".join(data[first - 4 : last] for first, last in (*sources, *kernels))
        counts = number(1, len(sources)) + number(2, len(kernels)) + number(PAYLOAD_SIZE, len(payload))
        yield from (block.before, prefixed(b"".join(kept) + counts), payload)


def _whole_blocks(data: Bytes) -> Iterator[RawBlock]:
    with contextlib.suppress(Malformed):
        yield from raw_blocks(data)


def nvtx_names(action: Any) -> tuple[str, ...]:
    """Return the names of the NVTX ranges around a launch, outermost first, the default domain unprefixed."""
    state = action.nvtx_state()
    if state is None:
        return ()
    names: list[str] = []
    for index in state.domains():
        domain = state.domain_by_id(index)
        own = (*domain.push_pop_ranges(), *domain.start_end_ranges())
        names.extend(names_in_domain(domain.name(), map(str, own)))
    return tuple(names)


def _touch(ncu_report: Any, path: str) -> None:
    """Do what reading does later, so that whatever kills it kills the child.

    What was seen to kill it is the loading of the whole file; of very many launches only the first are tried.
    """
    context = ncu_report.load_report(path)
    for action in itertools.islice(_each_action(context), _TRIED_LAUNCHES):
        action.name(), action.nvtx_state()


def _each_action(context: Any) -> Iterator[Any]:
    for index in range(context.num_ranges()):
        profiled = context.range_by_idx(index)
        for place in range(profiled.num_actions()):
            yield profiled.action_by_idx(place)


def _rule(entry: Mapping[str, Any]) -> RuleResult:
    message = entry.get("rule_message") or {}
    speedup = entry.get("speedup_estimation") or {}
    scope = {1: "local", 2: "global"}.get(int(speedup.get("type", 0)))
    return RuleResult(
        rule=str(entry.get("rule_identifier", "")),
        section=str(entry.get("section_identifier", "")),
        kind=_RULE_KINDS.get(int(message.get("type", 0)), "none"),
        title=str(message.get("title", "")),
        message=str(message.get("message", "")),
        speedup_percent=float(speedup["speedup"]) if "speedup" in speedup else None,
        speedup_scope=scope,
    )


def _value(action: Any, name: str) -> float | str | None:
    metric = action.metric_by_name(name)
    return _value_of(metric) if metric is not None else None


def _instances(action: Any, name: str) -> list[Instance]:
    metric = action.metric_by_name(name)
    if metric is None:
        return []
    keys = metric.correlation_ids() if metric.has_correlation_ids() else None
    return [
        (_value_of(keys, index) if keys is not None else None, _value_of(metric, index))
        for index in range(metric.num_instances())
    ]


def _value_of(native: Any, *index: int) -> Any:
    """Return a native metric's value, or that of an instance: what its own value() does, without a table per call."""
    read = _value_readers().get(native.kind(*index))
    return read(native, *index) if read is not None else None


@cache
def _value_readers() -> dict[int, Callable[..., Any]]:
    kind = import_ncu_report().IMetric
    return {
        kind.ValueKind_DOUBLE: kind.as_double,
        kind.ValueKind_FLOAT: kind.as_double,
        kind.ValueKind_STRING: kind.as_string,
        kind.ValueKind_UINT32: kind.as_uint64,
        kind.ValueKind_UINT64: kind.as_uint64,
    }
