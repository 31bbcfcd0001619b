"""Parts of the panel's benchmark."""
