"""Rules on compiled code, one file each."""
