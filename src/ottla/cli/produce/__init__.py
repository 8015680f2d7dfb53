"""`ottla produce`: parsers of its input, encoding by schema, and the sending with its reports."""
