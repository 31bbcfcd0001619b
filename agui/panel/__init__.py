"""The web panel's side of the daemon: its page, its API, its feed, and who is signed in."""
