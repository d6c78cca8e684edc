"""Providers: who answers a prompt. `scripted` from a file, `command` by any program, others through an entry point."""
