"""Programs that a Python with torch runs: `torch_flop_programs.py FOLDER` leaves a trace of each, and prints its FLOP.

The FLOP are those of torch.utils.flop_counter, by operator, as JSON. No test is in here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as f
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

Program = Callable[[], None]


def mlp() -> Program:
    net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8, bias=False))
    x = torch.randn(4, 5, 16, requires_grad=True)
    return lambda: net(x).sum().backward()


def conv() -> Program:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 6, (3, 1), dilation=2), nn.BatchNorm2d(6),
        nn.Conv2d(6, 4, 5, padding="same"), nn.Flatten(), nn.LazyLinear(10),
    )  # fmt: skip
    x = torch.randn(2, 3, 20, 17)
    net(x)
    return lambda: net(x).sum().backward()


def conv_transposed() -> Program:
    net = nn.Sequential(nn.ConvTranspose2d(6, 4, 4, stride=2, padding=1, output_padding=1), nn.ConvTranspose2d(4, 3, 3))
    x = torch.randn(2, 6, 8, 9, requires_grad=True)
    return lambda: net(x).sum().backward()


def conv_grouped() -> Program:
    net = nn.Sequential(
        nn.Conv2d(8, 8, 3, groups=8), nn.Conv2d(8, 12, 3, groups=4), nn.ConvTranspose2d(12, 6, 2, groups=3)
    )
    x = torch.randn(2, 8, 12, 12, requires_grad=True)
    return lambda: net(x).sum().backward()


def conv_1d_3d() -> Program:
    first, second = nn.Conv1d(3, 6, 5, stride=3), nn.Conv3d(2, 4, 3, padding=(1, 0, 2))
    x, y = torch.randn(2, 3, 50), torch.randn(1, 2, 6, 7, 8, requires_grad=True)

    def run() -> None:
        (first(x).sum() + second(y).sum()).backward()

    return run


def attention() -> Program:
    block = nn.MultiheadAttention(16, 4, batch_first=True)
    x = torch.randn(2, 9, 16, requires_grad=True)

    def run() -> None:
        out, _ = block(x, x, x, need_weights=True)
        torch.einsum("bij,bkj->bik", out, out).sum().backward()

    return run


def lower_types() -> Program:
    x, weight = torch.randn(16, 8), torch.randn(4, 8)
    packed = torch.ones(16, 32, device="meta").to(torch.float8_e4m3fn)
    scale = torch.ones((), device="meta")

    def run() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            f.linear(x, weight)
        f.linear(x.half(), weight.half())
        f.linear(x.double(), weight.double())
        torch._scaled_mm(packed, packed.t(), scale, scale, out_dtype=torch.bfloat16)

    return run


def fused_attention() -> Program:
    """The operators that GPUs run, on tensors without data."""
    aten = torch.ops.aten
    q, k, v = (torch.randn(2, 4, size, 16, device="meta", dtype=torch.half) for size in (10, 20, 20))
    long, none = torch.ones((), device="meta", dtype=torch.long), [True, True, True, False]

    def run() -> None:
        out, lse, *_ = aten._scaled_dot_product_flash_attention(q, k, v)
        aten._scaled_dot_product_flash_attention_backward(
            out, q, k, v, out, lse, None, None, 10, 20, 0.0, False, long, long
        )
        out, lse, seed, offset = aten._scaled_dot_product_efficient_attention(q, k, v, None, True)
        aten._scaled_dot_product_efficient_attention_backward(out, q, k, v, None, out, lse, seed, offset, 0.0, none)
        out, lse, *_ = aten._scaled_dot_product_cudnn_attention(q, k, v, None, True)
        aten._scaled_dot_product_cudnn_attention_backward(
            out, q, k, v, out, lse, long, long, None, None, None, 10, 20, 0.0, False
        )
        aten.baddbmm(
            torch.empty(3, 4, 5, device="meta"),
            torch.empty(3, 4, 6, device="meta"),
            torch.empty(3, 6, 5, device="meta"),
        )

    return run


def uncounted() -> Program:
    x, y = torch.randn(4, 5), torch.randn(5)
    return lambda: (torch.mv(x, y).sum() + torch.dot(y, y) + f.layer_norm(x, (5,)).sum(), None)[1]


PROGRAMS = (
    mlp, conv, conv_transposed, conv_grouped, conv_1d_3d, attention, lower_types, fused_attention, uncounted,
)  # fmt: skip


def main(folder: Path) -> None:
    """Run every program twice: counted by torch, then recorded by its profiler."""
    torch.manual_seed(0)
    counted: dict[str, dict[str, int]] = {}
    for make in PROGRAMS:
        program = make()
        with FlopCounterMode(display=False) as counter:
            program()
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
            program()
        recorded.export_chrome_trace(str(folder / f"{make.__name__}.json"))
        counts = counter.get_flop_counts().get("Global", {})
        counted[make.__name__] = {str(packet): flop for packet, flop in counts.items()}
    sys.stdout.write(json.dumps(counted))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
