"""A public package: a simulated world with clock, disk, network, registry and brokers. One seed decides its events and faults."""
