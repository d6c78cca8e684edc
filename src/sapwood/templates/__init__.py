"""Templates: the sandbox that renders them, the files they come from, and the versions they become."""
