"""Workflow files: read with positions, checked as a whole, and the ones that come with the package."""
