"""What the user has: evaluations, their bounds and checks, and the coordinates in which inference works."""
