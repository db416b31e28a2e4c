"""The methods that the benchmark compares, each a function from a task to an answer."""
