"""The one family of exceptions that this package raises for what its users can mend.

A message names the file, record or field, says what was wrong with it, and what to do. Mistakes in our own
code are not here: they stay the built-in exceptions that Python raises.
"""


class MarinAssetsError(Exception):
    """Something that the person who runs the pipeline can mend; the message says how."""


class SettingsError(MarinAssetsError):
    """A setting, an environment variable or a combination of them cannot work."""


class InputError(MarinAssetsError):
    """What a stage was given to read is missing or is not what it must be."""


class DamagedArtifactError(MarinAssetsError):
    """A published artifact has a file that is missing, truncated or altered."""


class StorageError(MarinAssetsError):
    """The local disk or the object store refused to read or write."""


class LeaseLostError(MarinAssetsError):
    """Another process took over the fingerprint that this one was computing; nothing was published."""


class StaleCodeError(MarinAssetsError):
    """Code was edited while it ran."""


class TrainingError(MarinAssetsError):
    """Training cannot start or go on."""


class WorkerError(MarinAssetsError):
    """A worker process ended before it was done."""
