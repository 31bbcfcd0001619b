"""The version of roost. A constant: a look into the installed metadata would slow each start."""

VERSION = "0.1.0"
