"""The stream of AG-UI events that leaves over HTTP: pure, without I/O and without a clock."""
