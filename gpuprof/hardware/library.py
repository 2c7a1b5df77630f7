"""Finds specs: `--spec FILE`, then the user's config folder, then the packaged ones; and matches devices to them.

Matching looks for the device's PCI id or name in the text of the files and parses only those that contain it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from gpuprof.errors import InputError, SpecError
from gpuprof.hardware.parse import parse_arch, parse_gpu
from gpuprof.hardware.specs import ArchSpec, GpuSpec
from gpuprof.hardware.yaml_tree import Node, load_tree, merge
from gpuprof.model.report import RecordedDevice
from gpuprof.resources import data_dir

_MEMORY_TOLERANCE = 0.12
"""A device reports less memory than its name says (ECC, reserved), and GB against GiB differ by 7 %."""


def user_spec_dir() -> Path:
    """Return the folder for the user's own specs: $GPUPROF_SPECS, else gpuprof/specs in the user's config folder."""
    override = os.environ.get("GPUPROF_SPECS")
    if override:
        return Path(override)
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")  # noqa: PTH111, PTH118
    return Path(config) / "gpuprof" / "specs"


@dataclass(frozen=True)
class SpecLibrary:
    """The specs that are in reach, searched in order: explicit files, user folder, packaged."""

    explicit: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = field(default_factory=lambda: (user_spec_dir(), data_dir("specs")))

    def gpu_files(self) -> tuple[Path, ...]:
        """Return every product file once: a user's file of the same name hides the packaged one."""
        return self.explicit + tuple(_first_by_name(self.folders, "gpu"))

    def arch_files(self) -> tuple[Path, ...]:
        """Return every architecture file once, the shared base file excluded."""
        return tuple(path for path in _first_by_name(self.folders, "arch") if path.stem != "base")

    def arch(self, name: str) -> ArchSpec | None:
        """Return the architecture "sm_80", or None if no spec describes it."""
        path = self._arch_path(name)
        return _load_arch(path, self.folders) if path is not None else None

    def arch_of(self, compute_capability: str) -> ArchSpec | None:
        """Return the architecture of compute capability "8.0", or None."""
        return self.arch("sm_" + compute_capability.replace(".", ""))

    def generic_arch(self) -> ArchSpec:
        """Return what all architectures share: counter names, no rates. For a GPU that no spec describes."""
        tree = load_tree(data_dir("specs") / "arch" / "base.yaml")
        return parse_arch(tree, generic=True)

    def gpu(self, name: str) -> GpuSpec:
        """Return a product by its spec name or title. Raises InputError that lists near names."""
        for path in self.gpu_files():
            if path.stem == name:
                return load_gpu(path)
        wanted = name.casefold()
        for path in self.gpu_files():
            spec = load_gpu(path)
            if wanted in {
                spec.name.casefold(),
                spec.title.casefold(),
                *(n.casefold() for n in spec.match.names),
            }:
                return spec
        import difflib

        near = difflib.get_close_matches(name.lower(), [path.stem for path in self.gpu_files()], n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise InputError(f"no GPU spec is called {name!r}", hint + "`gpuprof specs list` shows all")

    def match(self, device: RecordedDevice) -> GpuSpec | None:
        """Return the product that this device is, or None. Two that match equally well are an error in the specs."""
        if self.explicit:
            return load_gpu(self.explicit[0])
        for key in (device.pci_id, device.name):
            found = [load_gpu(path) for path in self.gpu_files() if key and key in _file_text(path)]
            fitting = [spec for spec in found if fits(spec, device)]
            if len(fitting) > 1:
                fitting = [spec for spec in fitting if device.name in spec.match.names] or fitting
            if len(fitting) == 1:
                return fitting[0]
            if fitting:
                names = ", ".join(spec.name for spec in fitting)
                raise SpecError(f"{fitting[1].place}: {device.name} matches several specs: {names}")
        return None

    def _arch_path(self, name: str) -> Path | None:
        for folder in self.folders:
            path = folder / "arch" / f"{name}.yaml"
            if path.is_file():
                return path
        return None


def fits(spec: GpuSpec, device: RecordedDevice) -> bool:
    """Tell whether a device can be this product: PCI id or name, and SM count and memory where both sides know them."""
    match = spec.match
    by_id = device.pci_id is not None and device.pci_id in match.pci_ids
    by_name = device.name is not None and device.name in match.names
    if not (by_id or by_name):
        return False
    if match.sm_count is not None and device.sm_count is not None and match.sm_count != device.sm_count:
        return False
    if match.memory_bytes is None or device.memory_bytes is None:
        return True
    return abs(device.memory_bytes / match.memory_bytes - 1) <= _MEMORY_TOLERANCE


def _first_by_name(folders: tuple[Path, ...], kind: str) -> Iterator[Path]:
    seen: set[str] = set()
    for folder in folders:
        for path in sorted((folder / kind).glob("*.yaml")):
            if path.name not in seen:
                seen.add(path.name)
                yield path


@cache
def _file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: cannot be read: {error}") from error


@lru_cache(maxsize=256)
def load_gpu(path: Path) -> GpuSpec:
    """Read one product file."""
    return parse_gpu(load_tree(path))


@lru_cache(maxsize=64)
def _load_arch(path: Path, folders: tuple[Path, ...]) -> ArchSpec:
    return parse_arch(arch_tree(path, folders))


def arch_tree(path: Path, folders: tuple[Path, ...], depth: int = 0) -> Node:
    """Read an arch file and lay it over the file that it names as its base."""
    tree = load_tree(path)
    base = tree.mapping("a spec file").get("base")
    if base is None:
        return tree
    if depth > 4:
        raise SpecError(f"{base.place}: bases are nested too deeply")
    for folder in (path.parent.parent, *folders):
        candidate = folder / "arch" / f"{base.text('base')}.yaml"
        if candidate.is_file():
            return merge(arch_tree(candidate, folders, depth + 1), tree)
    raise SpecError(f"{base.place}: base {base.value!r} is not found")
