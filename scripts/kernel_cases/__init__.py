"""Which kernels `scripts/kernel_report.py` compiles, with the types and constants of a Llama-3-8B shape."""
