"""Planning: which settings keep to a size or an error, from short probes on a sample of the table."""
