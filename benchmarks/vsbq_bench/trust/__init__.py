"""The study of verdicts: fits that are good or bad by construction, and what is said of them."""
