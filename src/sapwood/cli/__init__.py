"""The command line: people come in here."""
