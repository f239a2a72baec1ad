"""Experiments that answer a question."""
