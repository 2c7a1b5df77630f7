"""From samples to values with verdicts."""
