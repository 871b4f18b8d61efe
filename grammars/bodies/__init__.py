"""Most of a vocabulary at once: what repeats, ready as rows."""
