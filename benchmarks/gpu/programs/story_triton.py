"""A linear layer with its bias and its GELU as one Triton kernel; tells how long a call takes."""

from __future__ import annotations

import argparse
import sys
import time

import torch
import triton
import triton.language as tl


@triton.jit
def linear_gelu(x, weight, bias, out, rows, outputs, inputs, R: tl.constexpr, C: tl.constexpr, K: tl.constexpr):  # noqa: N803
    """Write a tile of gelu(x weightᵀ + bias)."""
    row = tl.program_id(0) * R + tl.arange(0, R)
    output = tl.program_id(1) * C + tl.arange(0, C)
    total = tl.zeros((R, C), dtype=tl.float32)
    for first in range(0, inputs, K):
        place = first + tl.arange(0, K)
        left = tl.load(
            x + row[:, None] * inputs + place[None, :],
            mask=(row[:, None] < rows) & (place[None, :] < inputs),
            other=0.0,
        )
        right = tl.load(
            weight + output[None, :] * inputs + place[:, None],
            mask=(output[None, :] < outputs) & (place[:, None] < inputs),
            other=0.0,
        )
        total += tl.dot(left, right)
    total += tl.load(bias + output, mask=output < outputs, other=0.0)[None, :]
    inner = 0.7978845608 * (total + 0.044715 * total * total * total)
    total = total / (1 + tl.exp(-2 * inner))
    target = out + row[:, None] * outputs + output[None, :]
    tl.store(target, total.to(tl.float16), mask=(row[:, None] < rows) & (output[None, :] < outputs))


def called(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return gelu(x weightᵀ + bias)."""
    (rows, inputs), outputs = x.shape, weight.shape[0]
    out = torch.empty((rows, outputs), dtype=torch.float16, device=x.device)
    grid = (triton.cdiv(rows, 32), triton.cdiv(outputs, 32))
    linear_gelu[grid](x, weight, bias, out, rows, outputs, inputs, R=32, C=32, K=32)
    return out


def waited(device: str) -> float:
    """Return the time, once the GPU has done all that was asked of it."""
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def main() -> int:
    """Call it many times; return 1 where the result is not that of PyTorch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--inputs", type=int, default=1024)
    parser.add_argument("--outputs", type=int, default=4096)
    options = parser.parse_args()
    torch.manual_seed(1)
    x = torch.randn(options.rows, options.inputs).half().to(options.device)
    weight = (torch.randn(options.outputs, options.inputs) / options.inputs**0.5).half().to(options.device)
    bias = torch.randn(options.outputs).half().to(options.device)
    out = called(x, weight, bias)
    began = waited(options.device)
    for _ in range(options.calls):
        out = called(x, weight, bias)
    took = (waited(options.device) - began) / options.calls
    wanted = torch.nn.functional.gelu(x.float() @ weight.float().T + bias.float(), approximate="tanh")
    right = torch.allclose(out.float(), wanted, atol=2e-2, rtol=2e-3)
    total = out.double().sum().item()
    print(f"linear: checksum {total:.1f}, {1000 * took:.3f} ms a call: {'right' if right else 'WRONG'}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
