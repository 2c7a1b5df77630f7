"""Whether a value is believed: verdicts, physical limits, throttling. Pure."""
