"""Numbered SQL files, one folder a back-end; added, never edited."""
