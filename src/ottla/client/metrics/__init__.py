"""The metrics of clients: values over recent windows, their names and groups, and snapshots. Times are arguments."""
