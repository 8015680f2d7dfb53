"""`make soak`: one broker under every kind of topic, group and client at once, for as long as one likes.

    python -m tests.torture.soak --minutes 30 --seed 7

Housekeeping runs every second or two, so that what takes a week elsewhere happens within the run. The broker is killed, or stopped,
and started again, its clock is moved a week ahead (where libfaketime is there), members of groups are killed. All along it is held
against a ledger of what it acknowledged, and looked at from outside.
"""
