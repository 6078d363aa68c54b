"""Ranking data: reading, writing, describing, generating and fetching them."""


def __getattr__(name: str) -> object:
    if name == "fetch":  # hingerank.data.fetch("ml-100k"); imported only when it is used
        from hingerank.data.fetching import fetch

        return fetch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
