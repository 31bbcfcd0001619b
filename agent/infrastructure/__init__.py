"""Adapters of the agent's ports: files, processes, stdio, models."""
