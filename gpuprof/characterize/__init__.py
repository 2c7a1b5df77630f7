"""Measures a GPU with micro-kernels: compile, gate by their SASS, time, reduce, judge.

Data goes one way, and a folder imports only from those before it: `probes` (what a probe is), `gates` (compiled, and
gated), `maths`, `judge` (verdicts and limits), `sheet` (the measured file), `record` (configurations and samples),
`on_gpu` (the border), `measure` and `results` (what methods share), `methods` (the ways to run a probe, a file each),
`present` (what people read of all that). Beside them are `schedule`, the order of a run; `counters`, `counted_run` and
`certify`, which have ncu count the probes' work; and `characterization` and `runner`, which drive it all.
"""
