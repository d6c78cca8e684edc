"""Ctrl-C waits while msgspec is imported.

Its C code takes a KeyboardInterrupt that comes while it looks for its types as "not there", goes on without them, and
ends the process with a segmentation fault later.
"""

import signal as _signal

_before = _signal.pthread_sigmask(_signal.SIG_BLOCK, {_signal.SIGINT})
try:
    import msgspec as _msgspec  # noqa: F401 (from here on it is there for everybody)
finally:
    _signal.pthread_sigmask(_signal.SIG_SETMASK, _before)
