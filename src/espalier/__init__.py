"""Espalier: a prefix-caching runtime for structured-generation programs."""
