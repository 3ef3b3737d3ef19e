"""Experiments: the file, its cells, running them, and reading the results."""
