"""Every exception that cscodec raises on purpose.

    CscodecError
    ├── InvalidInputError (also ValueError)   the caller's fault: a picture, an option, a path
    ├── BitstreamError                        the bytes' fault
    │   ├── BadMagicError                     not a cscodec file at all
    │   ├── UnsupportedVersionError           a format version this release does not know
    │   ├── TruncatedError                    the bytes end too early
    │   ├── ChecksumError                     a CRC does not match
    │   ├── InvalidFieldError                 a field holds a value the format forbids
    │   └── LimitExceededError                a field asks for more than the reader allows
    ├── ModelError                            the model's fault
    │   ├── ModelNotFoundError                no model of that name, path or id
    │   ├── InvalidModelError                 the model file cannot be used
    │   └── ModelMismatchError                the model does not fit the data or the task
    ├── KernelsError                          the installation's fault: no code for this processor
    └── SchedulerError                        a cluster's fault: out of reach, or without workers

Messages name the field or the file, the value found, what is allowed, and what to do.
"""


class CscodecError(Exception):
    """Base of all errors raised by cscodec."""


class InvalidInputError(CscodecError, ValueError):
    """An argument, a picture or a path that cannot be used."""


class BitstreamError(CscodecError):
    """Bytes that are not a valid cscodec file."""


class BadMagicError(BitstreamError):
    """The signature is missing: this is not a cscodec file."""


class UnsupportedVersionError(BitstreamError):
    """The file's format version, or a feature of it, is unknown to this release."""


class TruncatedError(BitstreamError):
    """The data end before the picture does."""


class ChecksumError(BitstreamError):
    """Stored and computed CRC differ: the bytes were damaged."""


class InvalidFieldError(BitstreamError):
    """A field holds a value that the format forbids."""


class LimitExceededError(BitstreamError):
    """A size in the file is above a limit; nothing was allocated for it."""


class ModelError(CscodecError):
    """A model that is missing, unusable or the wrong one."""


class ModelNotFoundError(ModelError):
    """No model of this name, path or id."""


class InvalidModelError(ModelError):
    """The model file is damaged or incomplete."""


class ModelMismatchError(ModelError):
    """The model does not fit the data or the task."""


class KernelsError(CscodecError):
    """The compiled kernels are missing, damaged, or not for this processor."""


class SchedulerError(CscodecError):
    """A scheduler that cannot be reached, is lost, or whose workers cannot be used."""
