"""Tables and figures of runs."""
