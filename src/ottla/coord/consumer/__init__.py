"""Consumer groups of the protocol of KIP-848: members send heartbeats, the coordinator assigns; knows no classic group."""
