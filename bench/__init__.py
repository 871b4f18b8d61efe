"""Benchmarks. `python -m bench` runs those of the small model; each module runs alone too."""
