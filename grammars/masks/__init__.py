"""Configurations, walks and finished masks."""
