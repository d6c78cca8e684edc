"""Benchmarks: `make bench`, or `make bench ONLY=name`. Each prints ratios from one interleaved run."""
