"""What lives on disk: the posterior file."""
