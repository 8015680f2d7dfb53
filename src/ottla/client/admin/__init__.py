"""The requests of an admin client, and plans of replica placement. Nothing here sends."""
