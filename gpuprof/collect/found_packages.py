"""Prints which packages a Python finds, without loading them: run by the user's Python, of whatever version."""

import sys

if __name__ == "__main__":
    # Python has put this folder first, whose modules are not meant for others.
    sys.path = [entry for entry in sys.path if entry != __file__.rpartition("/")[0]]

    import importlib.util

    sys.stdout.write(" ".join(name for name in sys.argv[1:] if importlib.util.find_spec(name) is not None))
