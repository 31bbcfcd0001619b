"""`roost chat`: the terminal interface. It lives on AgentConnection and knows nothing below it."""
