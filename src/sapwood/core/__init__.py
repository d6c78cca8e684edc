"""The four specifications as pure functions: values in, values out."""
