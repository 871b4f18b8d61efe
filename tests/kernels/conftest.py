"""Where no GPU is, kernels run interpreted. Triton reads this when a kernel's file is imported, so it is set first."""

from __future__ import annotations

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
