"""What a person sees: figures."""
