"""Hardware specs as typed values: architectures, products, and the library that finds them."""
