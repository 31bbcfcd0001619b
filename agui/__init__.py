"""The AG-UI protocol between the registry and its clients."""
