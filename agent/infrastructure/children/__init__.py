"""The two ways to a subagent: a thread of the daemon, or a process of our own."""
