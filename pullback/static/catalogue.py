"""The error codes of the static IR, as data. Codes are never renumbered."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """One code; a `reserved` one cannot occur in this IR, and keeps its number."""

    code: str
    meaning: str
    reserved: bool = False


_ENTRIES = (
    Entry("E1001", "invalid UTF-8"),
    Entry("E1002", "invalid character"),
    Entry("E1003", "unterminated string"),
    Entry("E1004", "invalid escape"),
    Entry("E1005", "invalid number"),
    Entry("E1006", "unterminated comment", reserved=True),
    Entry("E2001", "type mismatch"),
    Entry("E2002", "undefined name", reserved=True),
    Entry("E2003", "cannot infer type", reserved=True),
    Entry("E2004", "operand dtypes differ"),
    Entry("E2005", "wrong dtype for the op or the profile"),
    Entry("E2006", "trait not satisfied", reserved=True),
    Entry("E2007", "wrong number of operands or parameters"),
    Entry("E3001", "broadcasting fails"),
    Entry("E3002", "rank mismatch"),
    Entry("E3003", "contracted dimensions differ"),
    Entry("E3004", "axis out of range"),
    Entry("E3005", "duplicate axis"),
    Entry("E3006", "dimension zero, negative or unknown"),
    Entry("E3007", "element counts differ"),
    Entry("E3008", "not a permutation"),
    Entry("E3009", "squeezed extent is not 1"),
    Entry("E3010", "literal shape differs"),
    Entry("E4001", "used before definition"),
    Entry("E4002", "defined twice"),
    Entry("E4003", "undefined output"),
    Entry("E4004", "bad input declaration"),
    Entry("E4005", "constant data does not fit its type"),
    Entry("E4006", "index list length"),
    Entry("E4007", "slice list lengths"),
    Entry("E4008", "slice step not positive"),
    Entry("E4009", "conv2d channels differ"),
    Entry("E4010", "conv2d strides"),
    Entry("E4011", "gather indices not integer"),
    Entry("E5001", "no derivative rule"),
    Entry("E5002", "gradient module fails verification"),
    Entry("E5003", "invalid axis in a gradient"),
    Entry("E5004", "shape not supported in a gradient"),
    Entry("E5005", "input is not differentiable"),
    Entry("E6001", "index out of bounds"),
    Entry("E6002", "engine not available"),
    Entry("E6003", "op not known, or not supported by the profile or the engine"),
    Entry("E6004", "allocation failed"),
    Entry("E6005", "numeric overflow"),
    Entry("E6006", "invalid numeric value"),
    Entry("E6007", "time limit"),
    Entry("E6008", "device error"),
)
CATALOGUE = {entry.code: entry for entry in _ENTRIES}
