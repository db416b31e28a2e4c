"""Arrays in, arrays out: every formula of the paper, on NumPy and SciPy alone; imports nothing above it."""
