"""AG-UI over HTTP: `/agui`, for front ends that speak the protocol's standard transport."""
