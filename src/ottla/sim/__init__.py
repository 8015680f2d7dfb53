"""A seeded world: clock, disk, network and registry with faults to order; public, so that users can test with it."""
