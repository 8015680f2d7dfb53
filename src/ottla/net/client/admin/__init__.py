"""The admin clients, and the brokers that each request goes to."""
