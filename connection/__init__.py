"""AgentConnection, the boundary that user interfaces talk to.

For now its port and its cursor: the adapters and the local protocol are not built yet.
"""
