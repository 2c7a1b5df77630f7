"""NVIDIA's compilers and disassemblers, each behind one border: found, started with a limit, and read."""
