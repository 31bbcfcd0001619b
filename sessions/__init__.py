"""The daemon's side of a thread: the registry and worker supervision.

Knows no wire protocol but the worker's lines.
"""
