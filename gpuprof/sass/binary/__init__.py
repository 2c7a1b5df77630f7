"""Files that hold compiled code: ELF, cubins and what they say of kernels, fat binaries, host files, line tables."""
