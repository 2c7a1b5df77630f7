"""Output: a view turns a product into a document, a renderer turns a document into one medium."""
