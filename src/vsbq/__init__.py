"""Turn the log-density evaluations an optimiser left behind into a posterior."""
