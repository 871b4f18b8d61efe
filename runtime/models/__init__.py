"""Model architectures: one file each, reading like the paper."""
