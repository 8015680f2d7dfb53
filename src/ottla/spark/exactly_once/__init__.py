"""The exactly-once sink: runs the machines of `ottla.once` over brokers, in the tasks of a job and beside its driver.

`decision_log` keeps what was decided, `asking` asks coordinators, `tasks` is what workers do and `commits` what the driver does;
`work` says what is written. The machines know the rules; nothing here decides.
"""
