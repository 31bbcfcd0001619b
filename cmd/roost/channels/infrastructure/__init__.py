"""Adapters: Telegram through aiogram, the daemon in process and over its port, the disk."""
