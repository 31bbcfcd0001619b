"""The keeper of one worker, in an interpreter of its own: `python -m roost.keeper`."""
