"""Rules that say what is wrong with a kernel, why, where, what to change and what that can gain: pure functions."""
