"""Finds specs: `--spec FILE`, then the user's config folder, then the packaged ones; and matches devices to them.

Matching looks for the device's PCI id or name in the text of the files and parses only those that contain it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from gpuprof.errors import InputError, SpecError, hinted
from gpuprof.hardware.certificates import CERTIFICATES, Certificate, load_certificates
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.parse import ARCH_NAME, compile_target, parse_arch, parse_gpu
from gpuprof.hardware.specs import ArchSpec, GpuSpec
from gpuprof.hardware.yaml_tree import BrokenSpec, YamlNode, load_tree, merge, read_text
from gpuprof.resources import data_dir

_BASE_NAME = re.compile(r"[a-z0-9_-]+")
_NEAR_NAMES = 3
_MEMORY_TOLERANCE = 0.12
"""A device reports less memory than its name says (ECC, reserved), and GB against GiB differ by 7 %."""


def user_spec_dir() -> Path:
    """Return the folder for the user's own specs: $GPUPROF_SPECS, else gpuprof/specs in the user's config folder."""
    override = os.environ.get("GPUPROF_SPECS")
    if override:
        return Path(override)
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")  # noqa: PTH111, PTH118
    return Path(config) / "gpuprof" / "specs"


def _spec_dirs() -> tuple[Path, ...]:
    """Return where specs lie: the user's own folder, if there is one that may be looked into, and the packaged one."""
    own = user_spec_dir()
    return (own, data_dir("specs")) if os.access(own, os.R_OK | os.X_OK) else (data_dir("specs"),)


@dataclass(frozen=True)
class SpecLibrary:
    """The specs that are in reach, searched in order: explicit files, user folder, packaged."""

    explicit: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = field(default_factory=_spec_dirs)

    def gpu_files(self) -> tuple[Path, ...]:
        """Return every product file once: a user's file of the same name hides the packaged one."""
        return tuple(path for tier in self._tiers("gpu") for path in tier)

    def arch_files(self) -> tuple[Path, ...]:
        """Return every architecture file once in the order of compute capability, the shared base file excluded."""
        files = [path for tier in self._tiers("arch") for path in tier if path.stem != "base"]
        return tuple(sorted(files, key=lambda path: (len(path.stem), path.stem)))

    def files(self) -> tuple[Path, ...]:
        """Return every file in reach once, the shared base file and certificates included."""
        return tuple(path for kind in ("arch", "gpu", CERTIFICATES) for tier in self._tiers(kind) for path in tier)

    def arch(self, name: str) -> ArchSpec | None:
        """Return the architecture "sm_80", or None if no spec describes it."""
        path = self._arch_path(name)
        return _load_arch(path, self.folders) if path is not None else None

    def arch_of(self, compute_capability: str) -> ArchSpec | None:
        """Return the architecture of compute capability "8.0", or None."""
        return self.arch("sm_" + compute_capability.replace(".", ""))

    def certificates(self, arch: str) -> tuple[Certificate, ...]:
        """Return what is known of an architecture's counters. Raises BrokenSpec."""
        return _load_certificates(arch, self.folders)

    def generic_arch(self) -> ArchSpec:
        """Return what all architectures share: counter names, no rates. For a GPU that no spec describes."""
        tree = load_tree(data_dir("specs") / "arch" / "base.yaml")
        return parse_arch(tree, generic=True)

    def gpu(self, name: str) -> GpuSpec:
        """Return a product by its spec name or title. Raises InputError that lists near names."""
        for path in self.gpu_files():
            if path.stem == name:
                return load_gpu(path)
        titled = self._titled(name.casefold())
        if titled is not None:
            return titled
        import difflib

        names, typed = [path.stem for path in self.gpu_files()], name.lower()
        variants = [known for known in names if known.startswith(f"{typed}-")]
        near = variants or difflib.get_close_matches(typed, names, n=_NEAR_NAMES, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise InputError(f"no GPU spec named {name!r}", hint + "gpuprof specs list shows all")

    def products_of(self, arch: str) -> tuple[GpuSpec, ...]:
        """Return the products of an architecture. A broken file is passed over."""
        products = []
        for path in self.gpu_files():
            if _mentions(_file_text(path), arch):
                with suppress(SpecError):
                    products.append(load_gpu(path))
        return tuple(gpu for gpu in products if gpu.arch == arch)

    def match(self, device: RecordedDevice) -> GpuSpec | None:
        """Return the product that this device is; None if none matches, or several do and nothing tells them apart."""
        if self.explicit:
            return load_gpu(self.explicit[0])
        for tier in self._tiers("gpu"):
            spec = _match_among(tier, device)
            if spec is not None:
                return spec
        return None

    def _titled(self, wanted: str) -> GpuSpec | None:
        """Find a product by title or device name. A broken file that mentions it counts only if no other fits."""
        broken: SpecError | None = None
        for path in self.gpu_files():
            if wanted not in _file_text(path).casefold():
                continue
            try:
                spec = load_gpu(path)
            except SpecError as error:
                broken = broken or error
                continue
            if wanted in {text.casefold() for text in (spec.name, spec.title, *spec.match.names)}:
                return spec
        if broken is not None:
            raise broken
        return None

    def _tiers(self, kind: str) -> Iterator[tuple[Path, ...]]:
        """Yield the files of each place to look in, nearest first; a name that was seen hides those behind it."""
        if kind == "gpu":
            yield self.explicit
        seen: set[str] = set()
        for folder in self.folders:
            found = sorted((folder / kind).glob("*.yaml"), key=lambda path: path.stem)
            files = tuple(path for path in found if path.name not in seen)
            seen.update(path.name for path in files)
            yield files

    def _arch_path(self, name: str) -> Path | None:
        if not ARCH_NAME.fullmatch(name):
            return None
        for folder in self.folders:
            path = folder / "arch" / f"{name}.yaml"
            if path.is_file():
                return path
        return None


@cache
def compile_targets() -> Mapping[str, str]:
    """Return what kernels are compiled for, by architecture in the order of compute capability: "sm_90" → "sm_90a".

    Only packaged specs count: a user's own must not change what a probe is compiled for.
    """
    files = SpecLibrary(folders=(data_dir("specs"),)).arch_files()
    targets = {path.stem: compile_target(load_tree(path)) for path in files}
    return {arch: target for arch, target in targets.items() if target is not None}


def _match_among(paths: Iterable[Path], device: RecordedDevice) -> GpuSpec | None:
    paths = tuple(paths)
    for key in (device.pci_id, device.name):
        specs = [load_gpu(path) for path in paths if key and _mentions(_file_text(path), key)]
        fitting = [spec for spec in specs if fits(spec, device)]
        if len(fitting) > 1:
            fitting = [spec for spec in fitting if device.name in spec.match.names] or fitting
        if fitting:
            return fitting[0] if len(fitting) == 1 else None
    return None


def _mentions(text: str, key: str) -> bool:
    """Tell whether a file has the PCI id or name as a whole word outside of comments."""
    if key not in text:
        return False
    word = re.compile(rf"(?<![\w-]){re.escape(key)}(?![\w-])")
    return any(word.search(line) for line in text.splitlines() if not line.lstrip().startswith("#"))


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
    return same_memory(device.memory_bytes, match.memory_bytes)


def same_memory(one_bytes: float, other_bytes: float) -> bool:
    """Tell whether two memory sizes can be the same product's, however they were rounded and whatever is reserved."""
    return abs(one_bytes / other_bytes - 1) <= _MEMORY_TOLERANCE


@cache
def _file_text(path: Path) -> str:
    """Return a file's text for a quick look; nothing of one that cannot be read: `specs check` says why."""
    try:
        return read_text(path) if path.is_file() else ""
    except SpecError:
        return ""


@lru_cache(maxsize=256)
def load_gpu(path: Path) -> GpuSpec:
    """Read one product file."""
    with _hint(path):
        return parse_gpu(load_tree(path))


@lru_cache(maxsize=64)
def _load_arch(path: Path, folders: tuple[Path, ...]) -> ArchSpec:
    with _hint(path):
        return parse_arch(arch_tree(path, folders))


@lru_cache(maxsize=64)
def _load_certificates(arch: str, folders: tuple[Path, ...]) -> tuple[Certificate, ...]:
    try:
        return load_certificates(folders, arch)
    except BrokenSpec as error:
        with _hint(Path(error.place.file)):
            raise


def _hint(path: Path) -> AbstractContextManager[None]:
    """Tell whoever meets a broken spec while doing something else what to do about it."""
    return hinted(f"fix it or move it away; check it with gpuprof specs check {shlex.quote(str(path))}")


def arch_tree(path: Path, folders: tuple[Path, ...], depth: int = 0) -> YamlNode:
    """Read an arch file and lay it over the file that it names as its base."""
    tree = load_tree(path)
    base = tree.mapping("a spec file").get("base")
    if base is None:
        return tree
    if depth > 4:
        raise BrokenSpec(base.place, "bases are nested too deeply")
    below = arch_tree(base_path(base, path, folders), folders, depth + 1)
    _refuse_redefined_sources(below, tree)
    return merge(below, tree)


def base_path(base: YamlNode, path: Path, folders: tuple[Path, ...]) -> Path:
    """Find the base of an arch file: beside it, else in the folders. A user's sm_90 may start from the packaged one."""
    name = base.text("base")
    for folder in (path.parent.parent, *folders):
        candidate = folder / "arch" / f"{name}.yaml"
        if _BASE_NAME.fullmatch(name) and candidate.is_file() and candidate.resolve() != path.resolve():
            return candidate
    raise BrokenSpec(base.place, f"base {name!r} is not found")


def _refuse_redefined_sources(below: YamlNode, tree: YamlNode) -> None:
    """A source id that the base has already would silently become the evidence of the facts that come from the base."""
    inherited = below.mapping("a spec file").get("sources")
    own = tree.mapping("a spec file").get("sources")
    if inherited is None or own is None:
        return
    for name, node in own.mapping("sources").items():
        earlier = inherited.mapping("sources").get(name)
        if earlier is not None:
            raise BrokenSpec(node.place, f"redefines source {name!r} of {earlier.place}; choose another id")
