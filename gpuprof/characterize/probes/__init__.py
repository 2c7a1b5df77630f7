"""What a probe is, as its files say it."""
