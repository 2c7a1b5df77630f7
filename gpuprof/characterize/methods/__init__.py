"""The methods of measuring, each in a file of its own: how a step is measured, and what its samples come to."""
