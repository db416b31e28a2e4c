"""What can be done with a posterior: suggest evaluations, add them, change the prior, compare models."""
