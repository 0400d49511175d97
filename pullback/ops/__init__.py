"""The op table: importing this package enters every op."""

from pullback.ops import (
    along as along,
)
from pullback.ops import (
    conv as conv,
)
from pullback.ops import (
    dynamic as dynamic,
)
from pullback.ops import (
    einsum as einsum,
)
from pullback.ops import elementwise as elementwise
from pullback.ops import (
    extremes as extremes,
)
from pullback.ops import (
    identity as identity,
)
from pullback.ops import (
    index as index,
)
from pullback.ops import (
    linalg as linalg,
)
from pullback.ops import (
    movement as movement,
)
from pullback.ops import (
    prefix as prefix,
)
from pullback.ops import (
    random as random,
)
from pullback.ops import (
    reduce as reduce,
)
from pullback.ops import (
    scan as scan,
)
from pullback.ops import (
    scatter as scatter,
)
from pullback.ops import (
    slicing as slicing,
)
from pullback.ops import (
    sliding as sliding,
)
from pullback.ops import (
    sort as sort,
)
from pullback.ops import (
    structure as structure,
)
from pullback.ops import (
    window as window,
)
