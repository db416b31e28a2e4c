"""Targets that nobody tuned on: shapes, and models as scientists write them."""
