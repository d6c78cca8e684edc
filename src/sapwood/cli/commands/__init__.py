"""One module a command, imported when it is asked for."""
