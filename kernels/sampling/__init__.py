"""Sampling on a GPU. The contract and the reference are in `kernels/sample.py`; `launch.py` is the door."""
