"""`roost headless`: one conversation served as a worker, or one task without a daemon."""
