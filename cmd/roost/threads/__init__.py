"""Programs that look at threads, and send them work, through the daemon."""
