"""What a channel decides, without a network, a disk or a clock. Start with `ports`, then `chat`."""
