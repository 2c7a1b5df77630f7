"""A RawKernel and an elementwise kernel in CuPy."""

from __future__ import annotations

import argparse
import sys

import cupy

SOURCE = r"""
extern "C" __global__ void row_sums(const float* x, float* y, int columns) {
    __shared__ float parts[256];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 256) sum += x[blockIdx.x * columns + i];
    parts[threadIdx.x] = sum;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    }
    if (threadIdx.x == 0) y[blockIdx.x] = parts[0];
}
"""


def main() -> int:
    """Run both a few times; return 1 where a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=5)
    options = parser.parse_args()
    rows, columns = 4096, 4096
    x = (cupy.arange(rows * columns, dtype=cupy.float32) % 16).reshape(rows, columns)
    sums = cupy.zeros(rows, dtype=cupy.float32)
    row_sums = cupy.RawKernel(SOURCE, "row_sums")
    blend = cupy.ElementwiseKernel("float32 a, float32 b", "float32 c", "c = 0.5f * a + 0.25f * b", "blend")
    for _ in range(options.launches):
        row_sums((rows,), (256,), (x, sums, cupy.int32(columns)))
        mixed = blend(x, x)
    right = bool((sums == 7.5 * columns).all()) and bool((mixed == 0.75 * x).all())
    print(f"cupy kernels: {'right' if right else 'WRONG'}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
