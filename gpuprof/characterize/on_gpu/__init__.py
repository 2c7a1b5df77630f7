"""The border to the GPU: CuPy, NVML, memory and launches."""
