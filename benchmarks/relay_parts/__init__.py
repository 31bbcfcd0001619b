"""The processes of the relay benchmark: a worker that floods, clients that count, a bare relay."""
