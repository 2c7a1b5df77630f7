"""The border to NVML, the driver's word on its GPUs: loads it and asks it. What it does not say is None."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gpuprof.model.recorded import plausible

IDLE = 0x1
REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal limit",
    0x40: "hardware thermal limit",
    0x80: "power brake",
}
"""What lowers clocks below what a program could have (nvml.h, nvmlClocksEventReasons). An idle GPU and clocks that a
user has set (0x2) are no throttling."""
MHZ, MILLI = 1e6, 1e3
"""NVML counts clocks in MHz, and power and energy in thousandths: so many are one."""
_WORD_BITS = 64
"""Processors in a word of NVML's masks."""


class Nvml:
    """NVML, ready to be asked; without it or without a driver nothing has an answer. Tests give a `library`."""

    def __init__(self, library: Any | None = None) -> None:
        self._library = library if library is not None else _load()

    @property
    def there(self) -> bool:
        """Tell whether there is anything to ask."""
        return self._library is not None

    def driver(self) -> str | None:
        """Return the version of the driver."""
        return _text(self.ask("nvmlSystemGetDriverVersion"))

    def gpus(self) -> Iterator[tuple[int, NvmlGpu]]:
        """Yield the GPUs with their numbers, without those that are lost."""
        for number in range(self.ask("nvmlDeviceGetCount") or 0):
            handle = self.ask("nvmlDeviceGetHandleByIndex", number)
            if handle is not None:
                yield number, NvmlGpu(self, handle)

    def gpu_at(self, bus_id: str) -> NvmlGpu:
        """Return the GPU at a PCI bus id; one that NVML does not know has no answers."""
        return NvmlGpu(self, self.ask("nvmlDeviceGetHandleByPciBusId", bus_id.encode()))

    def constant(self, name: str) -> Any:
        """Return what a question is asked with, such as the number of a clock."""
        return getattr(self._library, name, None)

    def ask(self, question: str, *arguments: Any) -> Any | None:
        """Return the driver's answer; None if it has none: not supported, not permitted, GPU lost."""
        function: Callable[..., Any] | None = getattr(self._library, question, None)
        try:
            return function(*arguments) if function is not None else None
        except Exception:
            return None


class NvmlGpu:
    """One GPU: its answers to questions of NVML, by their names there, in plain types and base units."""

    def __init__(self, nvml: Nvml, handle: Any | None) -> None:
        self._nvml, self._handle = nvml, handle

    def amount(self, question: str, scale: float = 1.0, which: str | None = None, per: float = 1.0) -> float | None:
        """Return a quantity; `which` is the constant that says which one, such as "NVML_CLOCK_SM"."""
        answer = self._ask(question, *(() if which is None else (self._nvml.constant(which),)))
        return plausible(answer * scale / per) if answer is not None else None

    def temperature(self) -> float | None:
        """Return how hot it is, in degrees Celsius."""
        answer = self._ask("nvmlDeviceGetTemperature", self._nvml.constant("NVML_TEMPERATURE_GPU"))
        return float(answer) if answer is not None else None

    def whole(self, question: str) -> int | None:
        """Return a number as it is."""
        answer: int | None = self._ask(question)
        return answer

    def flag(self, question: str) -> bool | None:
        """Return whether something is on; of "current and pending" the current one."""
        answer = self._ask(question)
        return bool(answer[0] if isinstance(answer, (list, tuple)) else answer) if answer is not None else None

    def text(self, question: str) -> str | None:
        """Return a name."""
        return _text(self._ask(question))

    def processes(self, question: str) -> set[int] | None:
        """Return the numbers of processes."""
        answer = self._ask(question)
        return {process.pid for process in answer} if answer is not None else None

    def processors(self, count: int) -> frozenset[int]:
        """Return the host's processors on its side, of so many; none where the driver does not tell."""
        mask = self._ask("nvmlDeviceGetCpuAffinity", -(-count // _WORD_BITS)) or ()
        return frozenset(
            place * _WORD_BITS + bit for place, word in enumerate(mask) for bit in range(_WORD_BITS) if word >> bit & 1
        )

    def busy(self) -> float | None:
        """Return how busy it was in the last moment, as a fraction."""
        answer = self._ask("nvmlDeviceGetUtilizationRates")
        return answer.gpu / 100 if answer is not None else None

    def pci_ids(self) -> tuple[str | None, str | None]:
        """Return the PCI ids of the device and of its board."""
        answer = self._ask("nvmlDeviceGetPciInfo")
        return (_pci_id(answer.pciDeviceId), _pci_id(answer.pciSubSystemId)) if answer is not None else (None, None)

    def _ask(self, question: str, *arguments: Any) -> Any | None:
        return self._nvml.ask(question, self._handle, *arguments) if self._handle is not None else None


def _load() -> Any | None:
    """Return NVML, ready to be asked; None where it or the driver is not there."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # whatever is wrong with it, programs can be profiled and kernels timed without
        return None
    return pynvml


def _text(answer: Any | None) -> str | None:
    return answer.decode(errors="replace") if isinstance(answer, bytes) else answer


def _pci_id(number: int) -> str:
    """Write NVML's PCI number, device and vendor in one: 0x233510de → "10de:2335"."""
    return f"{number & 0xFFFF:04x}:{number >> 16:04x}"
