"""What the agent's tests are made of: fakes of its ports, and a scene with one session."""
