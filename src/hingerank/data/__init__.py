"""Data: reading, writing, describing, generating and fetching rows of ranking data."""


def __getattr__(name: str) -> object:
    if name == "fetch":  # hingerank.data.fetch("ml-100k"), without a cost for those who never fetch
        from hingerank.data.fetching import fetch

        return fetch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
