"""The warm spare: a worker that is ready before it is wanted: `python -m roost.spare`."""
