"""The version, in one place: the build, the command line and saved files read it from here."""

__version__ = "0.1.0"
