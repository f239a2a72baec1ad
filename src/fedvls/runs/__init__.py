"""A run on disk: configuration, header, metrics, checkpoints, result."""
