"""Where the time went: a run's virtual time attributed to causes, exactly, along the critical path of every round."""
