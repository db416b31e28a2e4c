"""The parts of `suggest`: places, what is open there, the choice of a batch, and reasons in words."""
