"""What NVIDIA's report reader writes of SASS is brought into the spelling of gpuprof, which stays as it is."""

from __future__ import annotations

from tests.nvidias_spelling import spelled
from tests.table import each_row


@each_row(
    ("told", "spelling"),
    [
        ("      @!P0  IADD3 R4, R4, -0x20, RZ", "@!P0 IADD3 R4, R4, -0x20, RZ"),
        ("FFMA R40, R135.reuse, |R172|.reuse, R4", "FFMA R40, R135, |R172|, R4"),
        ("IMMA.16832.S8.S8.SAT R4, R100.reuse.ROW, R104.COL, R4", "IMMA.16832.S8.S8.SAT R4, R100.ROW, R104.COL, R4"),
        ("@P1 LDGSTS.E.128 [R246+0x1800][R30.64], P2", "@P1 LDGSTS.E.128 [R246+0x1800], [R30.64], P2"),
        ("LDGSTS.E.128 [R2]desc[UR4][R30.64]", "LDGSTS.E.128 [R2], desc[UR4][R30.64]"),
        ("LDG.E R6, desc[UR14][R2.64]", "LDG.E R6, desc[UR14][R2.64]"),
        ("IMAD R5, R2, c[0x0][0x2fc], R5", "IMAD R5, R2, c[0x0][0x2fc], R5"),
        ("BRA `(.L_x_0) 0x75c45e232ee0", "BRA 0x75c45e232ee0"),
        ("@P0 BRA `(.L_x_0)", "@P0 BRA `(.L_x_0)"),
        ("RET.REL.NODEC R2, 0x7fd524fb1100", "RET.REL.NODEC R2 0x7fd524fb1100"),
        ("@P0 BRX R30, -0x18c0", "@P0 BRX R30 -0x18c0"),
        ("FSEL R19, R34, +INF , P1", "FSEL R19, R34, +INF, P1"),
        ("BSSY B0, 0x10", "BSSY B0, 0x10"),
        ("", ""),
    ],
)
def test_what_differs_only_in_spelling_is_the_same(told: str, spelling: str) -> None:
    assert spelled(told) == spelling
    assert spelled(spelling) == spelling
