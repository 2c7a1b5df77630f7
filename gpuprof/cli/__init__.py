"""The command line: one thin file per command, imported only when that command runs."""
