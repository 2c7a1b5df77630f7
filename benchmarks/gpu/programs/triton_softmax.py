"""A softmax over rows in Triton."""

from __future__ import annotations

import argparse
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def softmax(source, target, stride, columns, BLOCK: tl.constexpr):  # noqa: N803
    """Write the softmax of one row."""
    row = tl.program_id(0)
    places = tl.arange(0, BLOCK)
    values = tl.load(source + row * stride + places, mask=places < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(target + row * stride + places, powers / tl.sum(powers, axis=0), mask=places < columns)


def main() -> int:
    """Run a few launches; return 1 where the result is not that of PyTorch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=10)
    options = parser.parse_args()
    torch.manual_seed(1)
    source = torch.randn(8192, 1000, device="cuda")
    target = torch.empty_like(source)
    for _ in range(options.launches):
        softmax[(source.shape[0],)](source, target, source.stride(0), source.shape[1], BLOCK=1024, num_warps=4)
    right = torch.allclose(target, torch.softmax(source, 1), atol=1e-6)
    print(f"triton softmax: {'right' if right else 'WRONG'}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
