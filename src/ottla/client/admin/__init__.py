"""The requests of an admin client, and plans of replica placement. The package builds and reads messages; it sends nothing."""
