"""What the chat is made of on the screen."""
