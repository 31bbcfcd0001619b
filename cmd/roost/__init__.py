"""The programs of roost and their composition roots."""
