"""The steps of a run, from the schedule to samples."""
