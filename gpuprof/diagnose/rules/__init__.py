"""The rules, one file each: a function from the facts of a kernel to findings, and its thresholds."""
