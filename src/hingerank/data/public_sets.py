"""The public ranking sets that `fetch` knows: where each one lives, its licence, its size and its checksum.

A checksum here is one that the publisher or several independent projects document for the same file. Where none is
known it is None: the first copy is then trusted, its checksum is recorded in the cache and later copies must match it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PublicSet:
    """One public set. `url` is None where a person has to accept a licence on `page` and save `file` themselves."""

    name: str
    title: str
    licence: str
    page: str
    file: str
    url: str | None = None
    checksum: str | None = None  # "sha256:<hex>"
    size: int | None = None  # bytes of `file`


_LETOR_PAGE = "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/"
_MSLR_PAGE = "https://www.microsoft.com/en-us/research/project/mslr/"
_ISTELLA_PAGE = "http://quickrank.isti.cnr.it/istella-dataset/"
_MOVIELENS = "https://files.grouplens.org/datasets/movielens/"

_MICROSOFT = "Microsoft Research licence: research use only, agreement to be accepted on the page before downloading."
_ISTELLA = "Istella LETOR licence: non-commercial use only, agreement to be accepted before downloading."
_YAHOO = "Yahoo Webscope agreement: access is granted on request, to people at universities."
_GROUPLENS = (
    "GroupLens licence: research use, no commercial use without permission, no endorsement implied, "
    "cite Harper and Konstan (2015), The MovieLens Datasets; "
)
_NO_COPIES = _GROUPLENS + "no redistribution without permission."
_SAME_TERMS = _GROUPLENS + "redistribution only under the same terms."

_SETS = (
    PublicSet("ohsumed", "LETOR 3.0 OHSUMED, 106 queries", _MICROSOFT, _LETOR_PAGE, "OHSUMED.zip"),
    PublicSet("gov", "LETOR 3.0 .Gov: TD, HP, NP of 2003 and 2004", _MICROSOFT, _LETOR_PAGE, "Gov.rar"),
    PublicSet("mq2007", "LETOR 4.0 MQ2007, 1,692 queries", _MICROSOFT, _LETOR_PAGE, "MQ2007.rar"),
    PublicSet("mq2008", "LETOR 4.0 MQ2008, 784 queries", _MICROSOFT, _LETOR_PAGE, "MQ2008.rar"),
    PublicSet(
        "mslr-web10k",
        "MSLR-WEB10K, 10,000 queries, 136 features",
        _MICROSOFT,
        _MSLR_PAGE,
        "MSLR-WEB10K.zip",
        checksum="sha256:2902142ea33f18c59414f654212de5063033b707d5c3939556124b1120d3a0ba",
        size=1_234_144_912,
    ),
    PublicSet(
        "mslr-web30k",
        "MSLR-WEB30K, 30,000 queries, 136 features",
        _MICROSOFT,
        _MSLR_PAGE,
        "MSLR-WEB30K.zip",
        checksum="sha256:08cb7977e1d5cbdeb57a9a2537a0923dbca6d46a76db9a6afc69e043c85341ae",
        size=3_849_406_307,
    ),
    PublicSet(
        "yahoo-ltr",
        "Yahoo Learning to Rank Challenge (C14), set 1 and set 2",
        _YAHOO,
        "https://webscope.sandbox.yahoo.com/catalog.php?datatype=c",
        "ltrc_yahoo.tar.bz2",
    ),
    PublicSet(
        "istella",
        "Istella LETOR, 10.4 million rows, 220 features",
        _ISTELLA,
        _ISTELLA_PAGE,
        "istella-letor.tar.gz",
        checksum="sha256:d45899d9a6a0e48afb250aac7ee3dc50e73e263687f15761d754515cd8284e0b",
        size=1_288_401_248,
    ),
    PublicSet(
        "istella-s",
        "Istella-S LETOR, 3.4 million rows, 220 features",
        _ISTELLA,
        _ISTELLA_PAGE,
        "istella-s-letor.tar.gz",
        checksum="sha256:41b21116a3650cc043dbe16f02ee39f4467f9405b37fdbcc9a6a05e230a38981",
        size=472_129_615,
    ),
    PublicSet(
        "istella-x",
        "Istella-X LETOR, 26.8 million rows, 220 features",
        _ISTELLA,
        _ISTELLA_PAGE,
        "istella-X.tar.gz",
        checksum="sha256:e67be60d1c6a68983a669e4de9df2c395914717b2017cb3b68a97eb89f2ea763",
        size=4_743_657_398,
    ),
    PublicSet(
        "ml-100k",
        "MovieLens 100K: 943 users, 1,682 films",
        _NO_COPIES,
        "https://grouplens.org/datasets/movielens/100k/",
        "ml-100k.zip",
        url=_MOVIELENS + "ml-100k.zip",
        checksum="sha256:50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
        size=4_924_029,
    ),
    PublicSet(
        "ml-1m",
        "MovieLens 1M: 6,040 users",
        _NO_COPIES,
        "https://grouplens.org/datasets/movielens/1m/",
        "ml-1m.zip",
        url=_MOVIELENS + "ml-1m.zip",
        checksum="sha256:a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
    ),
    PublicSet(
        "ml-20m",
        "MovieLens 20M: 138,493 users",
        _SAME_TERMS,
        "https://grouplens.org/datasets/movielens/20m/",
        "ml-20m.zip",
        url=_MOVIELENS + "ml-20m.zip",
        checksum="sha256:96f243c338a8665f6bcc89c53edf6ee39162a846940de6b7c8c48aeada765ff3",
        size=198_702_078,
    ),
    PublicSet(
        "ml-latest-small",
        "MovieLens latest-small: 610 users (the publisher may replace it: not for published results)",
        _SAME_TERMS,
        "https://grouplens.org/datasets/movielens/latest/",
        "ml-latest-small.zip",
        url=_MOVIELENS + "ml-latest-small.zip",
        checksum="sha256:696d65a3dfceac7c45750ad32df2c259311949efec81f0f144fdfb91ebc9e436",
    ),
)

PUBLIC_SETS: dict[str, PublicSet] = {entry.name: entry for entry in _SETS}
