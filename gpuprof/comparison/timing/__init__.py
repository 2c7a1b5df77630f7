"""The verdict on time: what the runs of both sides tell of a ratio, of a kernel and of the whole run."""
