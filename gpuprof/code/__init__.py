"""Compiled code, read without a GPU: ELF files, NVRTC, nvdisasm, SASS, loops, and the addresses of a warp's lanes."""
