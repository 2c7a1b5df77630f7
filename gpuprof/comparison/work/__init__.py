"""The verdict on work: what a launch executes, moves and takes, count by count."""
