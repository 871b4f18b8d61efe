"""Vocabularies that lack bytes: what tokens of several bytes can still write."""
