"""The ceilings that a measured file gives, and which file belongs to a recorded GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuprof.characterize.sheet.measured import Measured, MeasuredValue, load_measured
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.library import same_memory
from gpuprof.hardware.specs import PATHS, ComputeKey
from gpuprof.hardware.yaml_tree import read_text
from gpuprof.model.ceilings import Limit

SUFFIX = ".measured.yaml"
FOLDER = "measured"
_PER_SECOND = ("B/s", "FLOP/s", "OP/s")


@dataclass(frozen=True, slots=True)
class MeasuredCeilings:
    """What a GPU was measured to reach. Rejected values are no ceilings."""

    measured: Measured

    def bandwidth(self, level: str) -> Limit | None:
        """Return the highest bandwidth of a level, in bytes/s; one above its limit only where there is no other."""
        return self._best((name, value) for name, value in self.measured.values.items() if value.ceiling == level)

    def compute(self, path: str, split: Mapping[ComputeKey, float] | None = None) -> Limit | None:
        """Return the highest rate of a path in FLOP/s (OP/s for integers).

        Where the kernel's mix is known, that of its main accumulator and instruction family, else of its accumulator;
        None if only others were measured. Without a mix the fastest counts, FP32 accumulation before FP16.
        """
        keyed = [
            (key, name) for name, value in self.measured.values.items() if (key := _key(value)) and key.path == path
        ]
        used = {key: flop for key, flop in (split or {}).items() if flop > 0 and key.path == path}
        if used:
            main = max(used, key=lambda key: used[key])
            exact = [(key, name) for key, name in keyed if key == main]
            keyed = exact or [(key, name) for key, name in keyed if key.accumulator == main.accumulator]
        else:
            keyed = [(key, name) for key, name in keyed if key.accumulator != "fp16"] or keyed
        return self._best((name, self.measured.values[name]) for _, name in keyed)

    def _best(self, candidates: Iterable[tuple[str, MeasuredValue]]) -> Limit | None:
        limits = [
            (value.as_ceiling[0], Limit(rate, value.evidence.clock_hz, self._source(name, value)))
            for name, value in candidates
            if value.usable and (rate := per_second(value, self.measured.device.sm_count))
        ]
        return max(limits, key=lambda limit: (limit[0], limit[1].value), default=(False, None))[1]

    def _source(self, name: str, value: MeasuredValue) -> str:
        regime = f", {value.regime.replace('_', ' ')}" if value.regime else ""
        return f"measured {self.measured.conditions.date[:10]}: {name}, {value.verdict}{regime}"


def find_measured(folders: Iterable[Path], device: RecordedDevice) -> Measured | None:
    """Return the newest measured file of a GPU in the first spec folder that has one.

    Only files that mention its name or PCI id are parsed. Raises SpecError for one of them that is broken.
    """
    for folder in folders:
        paths = sorted((folder / FOLDER).glob("*" + SUFFIX))
        measured = newest((load_measured(path) for path in paths if _mentions(read_text(path), device)), device)
        if measured is not None:
            return measured
    return None


def newest(files: Iterable[Measured], device: RecordedDevice) -> Measured | None:
    """Return the file that was measured last of those that belong to a GPU."""
    return max((file for file in files if belongs(file, device)), key=lambda file: file.conditions.date, default=None)


def belongs(measured: Measured, device: RecordedDevice) -> bool:
    """Tell whether a GPU is of the product that was measured: name or PCI id, SM count and memory where known.

    A report does not tell one card from another of its kind.
    """
    ours = measured.device
    same_id = device.pci_id is not None and device.pci_id == ours.pci_id
    if not same_id and device.name != ours.name:
        return False
    if device.sm_count is not None and device.sm_count != ours.sm_count:
        return False
    if device.memory_bytes is None or not ours.memory_bytes:
        return True
    return same_memory(device.memory_bytes, ours.memory_bytes)


def per_second(value: MeasuredValue, sm_count: int) -> float | None:
    """Return a rate per second; one per clock at the clock that it was measured at. None without that clock."""
    if value.value is None or value.unit in _PER_SECOND:
        return value.value
    clock = value.evidence.clock_hz
    sms = {"B/clk": 1, "B/clk/SM": sm_count, "FLOP/clk/SM": sm_count, "OP/clk/SM": sm_count}.get(value.unit)
    return value.value * sms * clock if sms is not None and clock is not None else None


def _key(value: MeasuredValue) -> ComputeKey | None:
    """Return the compute key that a value is the ceiling of; None for levels."""
    parts = (value.ceiling or "").split(" ")
    return ComputeKey(*parts[:3]) if parts[0] in PATHS else None


def _mentions(text: str, device: RecordedDevice) -> bool:
    return any(name is not None and name in text for name in (device.name, device.pci_id))
