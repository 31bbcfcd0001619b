"""AgentConnection, the boundary that user interfaces talk to. For now: its cursor."""
