"""The encodings of the instructions that a launch executed, looked up one by one: slow, and told in another way."""

from __future__ import annotations

from gpuprof.model.recorded import Launch
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES


def machine_words(launch: Launch) -> dict[int, int]:
    """The 128-bit encodings by address; the lowest one executed lies at the start of the kernel."""
    executed = launch.metrics.instances("thread_inst_executed_true") or {}
    addresses = [pc for pc in executed if isinstance(pc, int)]
    code, start = launch.details.machine_code(), min(addresses, default=0)
    inside = [pc for pc in addresses if (pc - start) % INSTRUCTION_BYTES == 0 and pc - start < len(code)]
    return {pc: int.from_bytes(code[pc - start : pc - start + INSTRUCTION_BYTES], "little") for pc in inside}
