"""MCP servers behind the ToolServers port. The library is imported when a server is configured."""
