"""The language: programs become operations on branches."""
