"""What runs inside a worker: turns, tools, approvals and history."""
