"""Recording: the bus, the spool that survives a killed process, and the API over them."""
