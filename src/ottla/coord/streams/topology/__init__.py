"""Rules for the topology of a streams application: its checks, the partition counts of its topics, and the tasks that result.

These modules are pure functions of a topology and the known topics. They know neither groups nor members, and store nothing.
"""
