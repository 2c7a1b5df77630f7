"""Facts in layers: counters, launch, units, waits, traffic, work, code, load of L1; `kernel` is the whole."""
