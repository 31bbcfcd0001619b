"""Adapters of the ports in sessions.domain."""
