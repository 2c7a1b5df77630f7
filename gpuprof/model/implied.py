"""The peaks that a report itself implies: recorded outright, or a rate over its percentage, both of one unit.

Nothing here looks at a spec, so that a spec can be held against it. Peaks are per clock cycle, so that the clock that
a kernel ran at does not enter. Every value carries how far the digits that a text export keeps leave it open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.specs import SCALAR_PATHS, WARP_OPCODES, ArchSpec, ComputeKey
from gpuprof.model.l2_slices import ATTRIBUTE, ATTRIBUTED_PEAK, COUNTED_PEAKS, L2_SECTORS
from gpuprof.model.quantities import Clocks, first_counted, tensor_split
from gpuprof.model.recorded import Launch, MetricTable, plausible, printed_rounding
from gpuprof.model.sass_opcodes import matrix_opcode
from gpuprof.units import SECTOR_BYTES, WARP_THREADS

_PERCENT = 100.0
LONG_ENOUGH_S = 20e-6
"""In a shorter launch a clock is counted over too few cycles."""
DRAM_CLOCK_DRIFT = 0.05
"""What DRAM's clock differs by between launches while it is the same."""
_LEAST_SHARE = 0.01
"""Of DRAM's peak: below it, what else uses DRAM in one of two passes weighs as much as the kernel."""
_LAUNCHES = 16
"""The longest launches of a GPU that are looked at: they count most cycles, and more of them say the same."""
_OTHER_WORK = 0.01
"""Of the tensor pipe's instructions, the share that may be packed FMA, which keep it busy and are not counted as its
work: each takes at most a quarter of the cycles of a matrix instruction, so a hundredth moves the peak by 0.25 %."""
_INTEGERS = "int32"
_ALU_BUSY = "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_elapsed"
_ADDS_ON_ALU = ("7.", "8.", "9.")
"""Compute capabilities that add integers on the ALU pipe alone; from 10.0 on lanes of FP32 take them, too."""
_ALU = frozenset({
    "F2FP", "FMNMX", "FSEL", "FSETP", "I2FP", "I2IP", "IADD3", "IMNMX", "ISETP", "LEA", "LOP3", "MOV", "P2R", "PLOP3",
    "PRMT", "SEL", "SGXT", "SHF",
})  # fmt: skip
_NOT_ALU = frozenset({
    "BAR", "BMOV", "BRA", "BSSY", "BSYNC", "CALL", "CS2R", "DADD", "DEPBAR", "DFMA", "DMUL", "DSETP", "EXIT", "F2I",
    "FADD", "FFMA", "FMUL", "FRND", "HADD2", "HFMA2", "HMMA", "HMUL2", "I2F", "IMAD", "IMMA", "LDC", "LDG", "LDGDEPBAR",
    "LDGSTS", "LDL", "LDS", "LDSM", "MUFU", "NOP", "R2UR", "RET", "S2R", "S2UR", "SHFL", "STG", "STL", "STS", "UIADD3",
    "UIMAD", "UISETP", "ULDC", "ULEA", "ULOP3", "UMOV", "UPRMT", "USEL", "USHF", "WARPSYNC",
})  # fmt: skip
"""Instructions by whether they run on the ALU pipe: so told, their counts give its busy cycles exactly in 27 launches
on V100, A100, A40 and H800. What did not occur in those is in neither set, and a kernel with it implies nothing."""
_TENSOR_BUSY = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
_DRAM_CLOCK = "dram__cycles_elapsed.avg.per_second"
_DRAM_SHARES = (
    "dram__throughput.avg.pct_of_peak_sustained_elapsed", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
)  # fmt: skip
_L2_SUM, _L2_SHARE = f"{L2_SECTORS}.sum", f"{L2_SECTORS}.avg.pct_of_peak_sustained_elapsed"
_PORT = "l1tex__m_xbar2l1tex_read_bytes.sum"
_PORT_SHARE = f"{_PORT}.pct_of_peak_sustained_elapsed"


class Implied(Struct, frozen=True):
    """A peak, how far it can be off by the digits that were kept (as a fraction of it), and what it was read from."""

    value: float
    rounding: float
    source: str


class ImpliedPeaks(Struct):
    """What the launches on a GPU imply of it. None, and a path that is not there: the report does not tell.

    `dram_clock_is_of_kernels`: the device's highest is not recorded, and can be above it.
    """

    sm_count: Implied | None = None
    sm_clock_hz: Implied | None = None
    dram_bytes_per_cycle: Implied | None = None
    dram_bytes_per_s: Implied | None = None
    dram_clock_hz: Implied | None = None
    dram_clock_is_of_kernels: bool = False
    l2_bytes_per_cycle: Implied | None = None
    l2_port_bytes_per_cycle: Implied | None = None
    compute: dict[str, Implied] = field(default_factory=dict)
    """FLOP per SM cycle of all SMs."""
    tensor: dict[ComputeKey, Implied] = field(default_factory=dict)
    """FLOP (OP for integers) per cycle of one SM in which its tensor pipe is busy."""


def implied_peaks(timed: Iterable[tuple[float | None, Launch]], device: RecordedDevice, arch: ArchSpec) -> ImpliedPeaks:
    """Return what launches with their durations imply of their GPU: of each peak the value with least rounding."""
    longest = sorted(timed, key=lambda pair: -(pair[0] or 0.0))[:_LAUNCHES]
    peaks = _of_device(device, [launch for _, launch in longest])
    for seconds, launch in longest:
        _add(peaks, launch.metrics, arch, device)
        clock = _product(launch.metrics, {_DRAM_CLOCK: 1}) if (seconds or 0.0) >= LONG_ENOUGH_S else None
        if clock is not None and (peaks.dram_clock_hz is None or _is_above(clock, peaks)):
            peaks.dram_clock_hz, peaks.dram_clock_is_of_kernels = clock, True
    return peaks


def _is_above(clock: Implied, peaks: ImpliedPeaks) -> bool:
    known = peaks.dram_clock_hz
    return peaks.dram_clock_is_of_kernels and known is not None and clock.value > known.value


def _of_device(device: RecordedDevice, launches: list[Launch]) -> ImpliedPeaks:
    """Return what the device's attributes tell.

    The clock and bus attributes of a GPU that shares its memory with a processor are not what their names say.
    """
    peaks = ImpliedPeaks()
    if device.sm_count:
        peaks.sm_count = Implied(float(device.sm_count), 0.0, source="device attribute multiprocessor_count")
    if any(launch.metrics.number("device__attribute_integrated") for launch in launches[:1]):
        return peaks
    if device.memory_bus_bits:
        # Both edges of the clock carry data.
        peaks.dram_bytes_per_cycle = Implied(
            2 * device.memory_bus_bits / 8, 0.0, source="2 × device attribute global_memory_bus_width ÷ 8"
        )
    if device.max_sm_clock_hz:
        peaks.sm_clock_hz = Implied(device.max_sm_clock_hz, 0.0, source="device attribute clock_rate")
    if device.max_memory_clock_hz:
        peaks.dram_clock_hz = Implied(device.max_memory_clock_hz, 0.0, source="device attribute memory_clock_rate")
    return peaks


def _add(peaks: ImpliedPeaks, metrics: MetricTable, arch: ArchSpec, device: RecordedDevice) -> None:
    """Take from a launch what is not known yet, or known less exactly."""
    peaks.dram_bytes_per_cycle = _counted_first(peaks.dram_bytes_per_cycle, _dram_per_cycle(metrics))
    peaks.dram_bytes_per_s = _closer(peaks.dram_bytes_per_s, _dram_rates(metrics))
    peaks.l2_bytes_per_cycle = _counted_first(peaks.l2_bytes_per_cycle, _l2(metrics)) or _l2_by_attribute(metrics)
    peaks.l2_port_bytes_per_cycle = _closer(peaks.l2_port_bytes_per_cycle, _l2_port(metrics, arch, device.sm_count))
    for path in SCALAR_PATHS:
        peak = _closer(peaks.compute.get(path), _recorded_peak(path, metrics, arch))
        if peak is not None:
            peaks.compute[path] = peak
    adds = _closer(peaks.compute.get(_INTEGERS), _integers(metrics, arch, device.sm_count))
    if adds is not None:
        peaks.compute[_INTEGERS] = adds
    for key, peak in _tensor(metrics, arch, device.sm_count):
        closer = _closer(peaks.tensor.get(key), [peak])
        if closer is not None:
            peaks.tensor[key] = closer


def _counted_first(known: Implied | None, candidates: Iterator[Implied]) -> Implied | None:
    """Prefer what counters give over the attribute of the device."""
    counted = known if known is not None and "attribute" not in known.source else None
    return _closer(counted, candidates) or known


def _closer(known: Implied | None, candidates: Iterable[Implied]) -> Implied | None:
    """Return the value with least rounding, the known one of equals."""
    every = [known, *candidates] if known is not None else list(candidates)
    return min(every, key=lambda implied: implied.rounding, default=None)


def _product(metrics: MetricTable, powers: Mapping[str, int], factor: float = 1.0) -> Implied | None:
    """Return factor × Π metric ^ power with its rounding; None where a metric is missing or zero."""
    value, rounding = factor, 0.0
    for name, power in powers.items():
        number = metrics.number(name)
        if not number or plausible(number) is None:
            return None
        value *= number**power
        rounding += printed_rounding(number, metrics.digits(name))
    return Implied(value, rounding, source=_named(powers))


def _named(powers: Mapping[str, int]) -> str:
    above = " × ".join(name for name, power in powers.items() if power > 0)
    below = " ÷ ".join(name for name, power in powers.items() if power < 0)
    return f"{above} ÷ {below}" if below else above


def _first(*products: Implied | None) -> Iterator[Implied]:
    yield from (product for product in products if product is not None)


def _dram_per_cycle(metrics: MetricTable) -> Iterator[Implied]:
    """Yield bytes per cycle of the DRAM clock."""
    yield from _first(_product(metrics, {"dram__bytes.sum.peak_sustained": 1}))
    for rate in _dram_rates(metrics):
        clock = _product(metrics, {_DRAM_CLOCK: 1})
        if clock is not None:
            source = f"{rate.source} ÷ {_DRAM_CLOCK}"
            yield Implied(rate.value / clock.value, rate.rounding + clock.rounding, source=source)


def _dram_rates(metrics: MetricTable) -> Iterator[Implied]:
    """Yield bytes per second over the percentage of the same bytes, or of DRAM as a whole."""
    for name in ("dram__bytes_read.sum", "dram__bytes_write.sum"):
        own = f"{name}.pct_of_peak_sustained_elapsed"
        yield from _first(_product(metrics, {f"{name}.per_second": 1, own: -1}, _PERCENT))
    for share in _DRAM_SHARES:
        if (metrics.number(share) or 0.0) >= _PERCENT * _LEAST_SHARE:
            yield from _first(_product(metrics, {"dram__bytes.sum.per_second": 1, share: -1}, _PERCENT))


def _l2(metrics: MetricTable) -> Iterator[Implied]:
    """Yield bytes per cycle of L2's clock for accesses of the SMs, over all slices that count."""
    yield from _first(
        *(_product(metrics, powers, SECTOR_BYTES) for powers in COUNTED_PEAKS),
        _product(metrics, {_L2_SUM: 1, _L2_SHARE: -1, "lts__cycles_elapsed.avg": -1}, _PERCENT * SECTOR_BYTES),
    )


def _l2_by_attribute(metrics: MetricTable) -> Implied | None:
    """Return the same over the slices that the device says it has."""
    by_share = {_L2_SUM: 1, ATTRIBUTE: 1, _L2_SHARE: -1, "lts__cycles_elapsed.sum": -1}
    known = (_product(metrics, ATTRIBUTED_PEAK, SECTOR_BYTES), _product(metrics, by_share, _PERCENT * SECTOR_BYTES))
    return _closer(None, _first(*known))


def _l2_port(metrics: MetricTable, arch: ArchSpec, sms: int | None) -> Iterator[Implied]:
    """Yield bytes per SM cycle that L2 can send to one SM."""
    share = _product(metrics, {_PORT: 1, _PORT_SHARE: -1}, _PERCENT)
    cycles = next(_sm_cycles(metrics, arch, sms), None)
    if share is not None and cycles is not None:
        source = f"{share.source} ÷ {cycles.source}"
        yield Implied(share.value / cycles.value, share.rounding + cycles.rounding, source=source)
    if sms:
        yield from _first(_product(metrics, {f"{_PORT}.peak_sustained": 1}, 1 / sms))


def _sm_cycles(metrics: MetricTable, arch: ArchSpec, sms: int | None) -> Iterator[Implied]:
    """Yield the elapsed cycles of all SMs together."""
    yield from _first(
        _product(metrics, {"sm__cycles_elapsed.sum": 1}),
        _product(metrics, {"l1tex__cycles_elapsed.sum": 1}),
        _product(metrics, {"smsp__cycles_elapsed.sum": 1}, 1 / arch.limit("sub_partitions")),
        _product(metrics, {"sm__cycles_elapsed.avg": 1}, float(sms)) if sms else None,
    )


def _recorded_peak(path: str, metrics: MetricTable, arch: ArchSpec) -> Iterator[Implied]:
    """Yield FLOP per SM cycle of all SMs, where the report has the peak of the path's instructions."""
    chain = arch.counters.get(f"peak.{path}")
    counted = first_counted(chain, path, metrics, Clocks(duration_s=1.0, sm_hz=1.0)) if chain is not None else None
    if counted is not None and counted.value > 0:
        every = (_product(metrics, {name: 1}) for name in counted.metrics)
        rounding = max((implied.rounding for implied in every if implied is not None), default=0.0)
        yield Implied(counted.value, rounding, source=" + ".join(counted.metrics))


def _integers(metrics: MetricTable, arch: ArchSpec, sms: int | None) -> Iterator[Implied]:
    """Yield OP per SM cycle of all SMs: the lanes of the ALU's instructions over the cycles that they keep it busy."""
    histogram = metrics.instances(WARP_OPCODES)
    share, cycles = _product(metrics, {_ALU_BUSY: 1}, 1 / _PERCENT), next(_sm_cycles(metrics, arch, sms), None)
    if not histogram or not sms or share is None or cycles is None:
        return
    counts: dict[str, float] = {}
    for opcode, count in histogram.items():
        name = str(opcode).partition(".")[0]
        counts[name] = counts.get(name, 0.0) + count
    executed = sum(count for name, count in counts.items() if name in _ALU)
    is_known = all(name in _ALU or name in _NOT_ALU for name, count in counts.items() if count)
    if executed and is_known and arch.compute_capability.startswith(_ADDS_ON_ALU):
        source = f"ALU opcodes × {WARP_THREADS} lanes ÷ ({share.source} × {cycles.source})"
        value = executed * WARP_THREADS * sms / (share.value * cycles.value)
        yield Implied(value, share.rounding + cycles.rounding, source=source)


def _tensor(metrics: MetricTable, arch: ArchSpec, sms: int | None) -> Iterator[tuple[ComputeKey, Implied]]:
    """Yield the FLOP of a launch's matrix instructions per busy cycle of the tensor pipe, if they are of one kind."""
    work = _matrix_work(metrics, arch)
    if work is None:
        return
    share, cycles = _product(metrics, {_TENSOR_BUSY: 1}, 1 / _PERCENT), next(_sm_cycles(metrics, arch, sms), None)
    if share is not None and cycles is not None:
        key, flop = work
        source = f"FLOP of the matrix opcodes ÷ ({share.source} × {cycles.source})"
        yield key, Implied(flop / share.value / cycles.value, share.rounding + cycles.rounding, source=source)


def _matrix_work(metrics: MetricTable, arch: ArchSpec) -> tuple[ComputeKey, float] | None:
    """Return the only kind of matrix work and its FLOP; None where kinds mix or other work shares the pipe."""
    split, histogram = tensor_split(metrics), metrics.instances(WARP_OPCODES)
    used = {key: flop for key, flop in (split or {}).items() if flop is None or flop > 0}
    if len(used) != 1 or histogram is None:
        return None
    ((key, flop),) = used.items()
    shares = _shares_pipe(arch)
    packed = sum(count for opcode, count in histogram.items() if _is_packed(str(opcode), shares=shares))
    matrices = [(matrix, count) for opcode, count in histogram.items() if (matrix := matrix_opcode(str(opcode)))]
    # Of a sparse instruction half of the FLOP are done, in more than half of the cycles on 9.0.
    if any(matrix.sparse for matrix, _ in matrices) or flop is None or key not in arch.compute:
        return None
    if packed > _OTHER_WORK * sum(count for _, count in matrices):
        return None
    return key, flop


def _shares_pipe(arch: ArchSpec) -> bool:
    """Tell whether packed FP16 may run on the tensor pipe: where it is faster than FP32, no FMA pipe does it."""
    half, single = arch.compute.get(ComputeKey("fp16")), arch.compute.get(ComputeKey("fp32"))
    return half is None or single is None or half.value > single.value


def _is_packed(opcode: str, *, shares: bool) -> bool:
    """Tell whether an instruction that is no matrix instruction runs on the tensor pipe; `HFMA2.MMA` always does."""
    name, *modifiers = opcode.split(".")
    return name in ("HFMA2", "HADD2", "HMUL2") and (shares or "MMA" in modifiers)
