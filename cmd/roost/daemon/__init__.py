"""The daemon: owns every thread of this machine's user."""
