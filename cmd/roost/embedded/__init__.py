"""Sessions inside a program that is not roost: no daemon, no worker processes."""
