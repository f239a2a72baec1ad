"""One short file per method. Importing this folder registers them all."""

from .ccvr import ccvr
from .combinations import fedvls_fedexp, fedvls_fedsam
from .fedavg import fedavg
from .fedconcat import fedconcat
from .feddkd import feddkd
from .feddyn import feddyn
from .fedekd import fedekd
from .fedexp import fedexp
from .fedgf import fedgf
from .fedkd import fedkd
from .fedlc import fedlc
from .fedlmd import fedlmd
from .fedmr import fedmr
from .fednova import fednova
from .fedntd import fedntd
from .fedopt import fedadam, fedavgm
from .fedprox import fedprox
from .fedrs import fedrs
from .fedsam import fedsam
from .fedvls import fedvls
from .fedvls_soft import fedvls_soft
from .fpl import fpl, fpl_fedvls
from .mofedsam import mofedsam
from .moon import moon
from .scaffold import scaffold

__all__ = [
    "ccvr",
    "fedadam",
    "fedavg",
    "fedavgm",
    "fedconcat",
    "feddkd",
    "feddyn",
    "fedekd",
    "fedexp",
    "fedgf",
    "fedkd",
    "fedlc",
    "fedlmd",
    "fedmr",
    "fednova",
    "fedntd",
    "fedprox",
    "fedrs",
    "fedsam",
    "fedvls",
    "fedvls_fedexp",
    "fedvls_fedsam",
    "fedvls_soft",
    "fpl",
    "fpl_fedvls",
    "mofedsam",
    "moon",
    "scaffold",
]
