"""`roost demo`: a scripted tour of a real daemon, with real workers, tools and crashes."""
