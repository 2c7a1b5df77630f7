"""Files of all kinds into compiled kernels: sources, PTX, cubins, fat binaries, programs, Triton's cache, reports."""
