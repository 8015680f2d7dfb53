"""The settings of clients: each declared once, with Kafka's name, default, check and explanation."""
