"""A simulated world decided by one seed: clock, disk, network, registry and brokers, with faults to order. A public package."""
