"""One module per API family: plain functions from a request to a reply."""
