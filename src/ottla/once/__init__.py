"""Batches written exactly once, though many tasks write each, and any may be killed, repeated or run twice (KIP-98, KIP-664).

Each task writes in a transaction of its own and hands it over open. The committer checks that all transactions of the batch are
open, stores their list (the decision), and ends them. A decided batch is never written again: transactions of other attempts are
aborted, and open transactions of the decision are committed. `writing` is a task's side, `committing` the committer's; both are
generators that yield steps and get their results. Brokers, threads and Spark are unknown here.

Why it is safe:

- A transactional id belongs to one process of one run, so no two attempts ever have the same.
- Decisions are written under a transactional id of their own, so that the newest committer fences all earlier ones.
- A task reads the decision after its transaction is open, and a committer lists open transactions after its decision: one of
  them sees the other, and no transaction stays open for ever.

The states of a batch, by its decision, and what becomes of its transactions. A batch is written when it is `decided`, whatever
happens afterwards; one that is `void` is to be written again. From `torn` only a person gets on: rows are lost.

| state | event | next state |
|---|---|---|
| undecided, void | all open | decided |
| decided | all committed | finished |
| decided | all aborted | void |
| decided | all forgotten, some ended otherwise | torn |
"""
