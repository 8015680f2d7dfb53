"""Batches written exactly once (KIP-98, KIP-664). Many tasks write one batch, and any task can be killed, repeated or run twice.

Each task writes in a transaction of its own and hands it over open. The committer checks that all transactions of the batch are
open, stores their list (the decision), and ends them. A decided batch is never written again: transactions of other attempts are
aborted, and open transactions of the decision are committed. `writing` is the task's part and `committing` the committer's. Both
are generators that yield steps and are sent the steps' results. The package uses no brokers, threads or Spark.

Why it is safe:

- A transactional id belongs to one process of one run, so no two attempts ever have the same id.
- Decisions are written under a transactional id of their own, so that the newest committer fences all earlier ones.
- A task reads the decision after its transaction is open, and a committer lists open transactions after its decision: one of
  them sees the other, and no transaction stays open for ever.

The table has the states of a batch, which depend on its decision and on its transactions. A batch counts as written once it is
`decided`. A `void` batch must be written again. A `torn` batch has lost rows, and only a person can repair it.

| state | event | next state |
|---|---|---|
| undecided, void | all open | decided |
| decided | all committed | finished |
| decided | all aborted | void |
| decided | all forgotten, some ended otherwise | torn |
"""
