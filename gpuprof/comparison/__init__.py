"""Two runs of a program, or two versions of it: what changed, why, and whether a gate lets it pass."""
