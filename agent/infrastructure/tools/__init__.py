"""The tools of the agent: one file each for programs, files and searches."""
