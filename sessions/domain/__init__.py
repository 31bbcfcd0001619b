"""Ports and the pure state of threads. No I/O, no clock, no framework."""
