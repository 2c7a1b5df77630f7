"""The verdict on time, of each kernel and of the whole run."""
