"""The console: pages for people and the content as JSON for programs, about any Kafka cluster. It is a client like others."""
