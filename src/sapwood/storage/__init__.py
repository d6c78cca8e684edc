"""The stores. Each keeps the same promises and passes the same contract tests."""
