"""Facts of a kernel, in layers: counters, launch, units, waits, traffic, work, code; `kernel` is the whole."""
