"""The durable engine: decides when a node runs. The only package that knows dbos and sqlalchemy.

Its database is a to-do list. What happened stands in the store, and every step asks the store first; so the file may be
deleted at any time, and a run is continued by starting it again.
"""
