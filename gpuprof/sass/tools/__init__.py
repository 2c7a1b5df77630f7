"""NVIDIA's compilers and disassemblers: found, run with limits, and their output read."""
