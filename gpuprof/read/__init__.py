"""Files in, recorded values out. Starts no profiler, interprets nothing, refuses what is damaged."""
