"""A compiled kernel as it came out of a file, before it is disassembled, and what its user said of launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuprof.model.recorded import Dim3
from gpuprof.review.contract import ModuleForm
from gpuprof.sass.binary.cubin import CubinKernel

NO_CODE = "the file holds no machine code of it"
NO_CODE_HINT = "check the program or its cubin instead"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLaunch:
    """How a kernel is launched, as far as that is known. `arguments` are values by ordinal."""

    block: Dim3 | None = None
    grid: Dim3 | None = None
    dynamic_shared_bytes: int | None = None
    arguments: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledKernel:
    """One kernel for one target; of a report, one launch.

    `lines` has the source place of instructions by offset where it was read elsewhere (a report), else None: they are
    read from the cubin. `argument_names` are by ordinal; `label` is the short name, which `review.py` gives. `bare`
    says why there is no machine code where there is none.
    """

    name: str
    label: str = ""
    target: str
    origin: str
    cubin: bytes
    kernel: CubinKernel
    shape: KnownLaunch
    launch: int | None = None
    lines: Mapping[int, tuple[str, int]] | None = None
    argument_names: tuple[str | None, ...] = ()
    notes: tuple[str, ...] = ()
    bare: str | None = None

    @property
    def has_code(self) -> bool:
        """Tell whether there is machine code to be reviewed."""
        return bool(self.kernel.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputModule:
    """The device code of one file or member: its kernels, or none where it is PTX that nothing compiled.

    `holds` counts its kernels, chosen or not; `kernels` are the chosen ones. `tools` made or unpacked it.
    """

    origin: str
    target: str
    form: ModuleForm
    holds: int
    kernels: tuple[CompiledKernel, ...]
    tools: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
