"""What can go wrong. Errors of files and devices are plain `OSError`s with their number."""


class Error(Exception):
    """Base of this package's own exceptions."""


class MissingFeature(Error):
    """The kernel does not offer something that arrays need; the message names it."""


class HandlerError(Error):
    """The SIGBUS handler, through which misses arrive, is not in place."""


class SettingError(Error, ValueError):
    """A setting, size, policy, limit or range is wrong."""


class PolicyError(Error):
    """A policy written in Python raised an exception, or named a victim that is not in memory; the message
    names the class and the method."""


class FileInUseError(SettingError):
    """A file is already mapped, here or by another process, or is swap or a journal. The message says by
    whom, as far as that is known."""


class OutOfMemory(Error, MemoryError):
    """More than budget and swap can hold, or nothing can be evicted."""


class ReadOnlyError(Error, ValueError):
    """A store to a read-only array."""


class ClosedError(Error, ValueError):
    """The pool has been closed."""


class ForkedError(Error, RuntimeError):
    """The pool was made before this process was forked."""


class ForkWarning(RuntimeWarning):
    """A process with live arrays is about to fork."""
