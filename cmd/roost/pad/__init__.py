"""The launch pad: imports once what every worker needs, and forks: `python -m roost.pad <fd>`."""
