"""`roost panel`, and what the daemon's panel reads and keeps on the disk."""
