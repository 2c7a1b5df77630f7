"""Files with compiled code: ELF, cubins, their attributes and line tables, fat binaries, host files."""
