"""Writing batches once, though many tasks write each, and anything of it may be killed, repeated or done twice (KIP-98, KIP-664).

Each task writes in a transaction of its own and hands it over open. Whoever commits the batch finds all of them open, keeps the
list of them for good (the decision), and ends them. A batch that was decided is never written again: what another attempt has
written is aborted, and what is still open of the decided ones is committed. `writing` is a task's side, `committing` the other;
both are steps that ask for what they need and are handed the answers. They know no brokers, no threads and no Spark.

What makes it safe:

- A transactional id belongs to one process of one run, so no two attempts ever have the same.
- Decisions are written under one transactional id of their own, so that the newest one who decides fences all before.
- A task looks for a decision after its transaction is open, and who decides looks for open transactions after the decision: one of
  them sees the other, and nothing stays open that nobody will end.
"""
