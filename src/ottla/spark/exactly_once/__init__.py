"""The exactly-once sink: it runs the machines of `ottla.once` over brokers, in the tasks of a job and beside its driver.

`decision_log` stores decisions, `asking` sends requests to coordinators, `tasks` runs in workers and `commits` beside the driver;
`work` identifies a batch. The rules are in the machines.
"""
