"""`ottla registry`: the check, restoration and copy of registries."""
