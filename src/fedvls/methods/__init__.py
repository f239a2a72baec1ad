"""One short file per method. Importing this folder registers them all."""

from .combinations import fedvls_fedexp, fedvls_fedsam
from .fedavg import fedavg
from .feddkd import feddkd
from .fedekd import fedekd
from .fedexp import fedexp
from .fedkd import fedkd
from .fedlc import fedlc
from .fedlmd import fedlmd
from .fedntd import fedntd
from .fedprox import fedprox
from .fedrs import fedrs
from .fedsam import fedsam
from .fedvls import fedvls
from .mofedsam import mofedsam

__all__ = [
    "fedavg",
    "feddkd",
    "fedekd",
    "fedexp",
    "fedkd",
    "fedlc",
    "fedlmd",
    "fedntd",
    "fedprox",
    "fedrs",
    "fedsam",
    "fedvls",
    "fedvls_fedexp",
    "fedvls_fedsam",
    "mofedsam",
]
