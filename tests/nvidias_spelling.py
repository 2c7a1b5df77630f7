"""SASS as NVIDIA's report reader writes it, in the spelling of gpuprof.

That reader writes more spaces behind a predicate and one behind `+INF`, `[R2][R4.64]` for the two addresses of a copy,
`R2, 0x10` for what a RET or BRX adds, and the name of a label before its address. Nothing else differed in 43,000
instructions of sm_75 to sm_90 (nvdisasm 12.8 and 13.5, ncu_report 2026.3).
"""

from __future__ import annotations

import re

_SPACES = re.compile(r"\s+")
_LABEL = re.compile(r"`\([^()]*\) ?(?=0x[0-9a-f]+$)")
_COPY = re.compile(r"((?<!\S)LDGSTS\S* \[[^\[\]]*\])(?=\[|desc)")
_INDIRECT = re.compile(r"((?<![\w.])(?:RET|BRXU?|JMXU?)(?:\.\w+)* \w+), (?=-?0x[0-9a-f]+$)")


def spelled(sass: str) -> str:
    """Return an instruction in that spelling."""
    if "  " in sass or "\t" in sass:
        sass = _SPACES.sub(" ", sass)
    if " ," in sass:
        sass = sass.replace(" ,", ",")
    if ".reuse" in sass:
        sass = sass.replace(".reuse", "")
    if "`" in sass:
        sass = _LABEL.sub("", sass)
    if "LDGSTS" in sass:
        sass = _COPY.sub(r"\1, ", sass)
    if "RET" in sass or "BRX" in sass or "JMX" in sass:
        sass = _INDIRECT.sub(r"\1 ", sass)
    return sass.strip()
