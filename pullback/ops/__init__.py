"""The op table: importing this package enters every op."""

from pullback.ops import (
    along as along,
    conv as conv,
    dynamic as dynamic,
    einsum as einsum,
    extremes as extremes,
    identity as identity,
    index as index,
    linalg as linalg,
    movement as movement,
    prefix as prefix,
    random as random,
    reduce as reduce,
    scan as scan,
    scatter as scatter,
    slicing as slicing,
    sliding as sliding,
    sort as sort,
    structure as structure,
    window as window,
)
from pullback.ops import elementwise as elementwise
