"""The pure core of the agent: no I/O, no framework, no clock."""
