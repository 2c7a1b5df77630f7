"""A measured file as YAML text, in a fixed order, with six digits."""

from __future__ import annotations

import yaml

from gpuprof.characterize.sheet.forms import InLine
from gpuprof.characterize.sheet.keys import content_of
from gpuprof.characterize.sheet.measured import HEAD, Measured

_WIDTH = 120
_MAP, _LIST = "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"
_COMMENT = "# What gpuprof's micro-kernels reached on this GPU. Not a datasheet; `evidence` says why to believe it.\n"


class _Dumper(yaml.SafeDumper):
    """Writes lists in one line, and equal parts twice: the reader refuses aliases."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


_Dumper.add_representer(InLine, lambda dumper, data: dumper.represent_mapping(_MAP, data, flow_style=True))
_Dumper.add_representer(list, lambda dumper, data: dumper.represent_sequence(_LIST, data, flow_style=True))


def measured_text(measured: Measured) -> str:
    """Return the YAML of a measured file; `parse_measured` reads it back."""
    return _COMMENT + yaml.dump(
        {**HEAD, **content_of(measured)},
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=_WIDTH,
    )
