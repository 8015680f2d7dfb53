"""Other people's test suites against Ottla: which of their tests about groups pass, and why the others do not."""
