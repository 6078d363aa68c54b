"""The one error that bad data raises."""


class DataError(ValueError):
    """A data file or array that cannot be used; the message names the place, what was found and what was expected."""
