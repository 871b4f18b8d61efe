"""Automata over code points and bytes, whatever language they come from."""
