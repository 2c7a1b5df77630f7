"""Print which packages this Python finds, without importing them. The user's Python runs this, in any version."""

import sys

if __name__ == "__main__":
    # Python put this folder first on the path; its modules must not shadow others.
    sys.path = [entry for entry in sys.path if entry != __file__.rpartition("/")[0]]

    import importlib.util

    sys.stdout.write(" ".join(name for name in sys.argv[1:] if importlib.util.find_spec(name) is not None))
