"""The forms of records as text and bytes, for `ottla consume` and `ottla produce`: templates, delimiters and JSON objects."""
