"""Channels: the agents in a chat. Clients of the daemon whose screen is a messaging service."""
