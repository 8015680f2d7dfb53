"""The exactly-once sink. It runs the state machines of `ottla.once` over brokers, in the tasks of a job and beside its driver.

`decision_log` stores decisions, `coordinator_requests` sends requests to coordinators, `tasks` runs in workers, and `commits`
beside the driver. `work` identifies a batch. The machines contain the rules.
"""
