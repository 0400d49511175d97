"""The error codes of the static IR, as data. Codes are never renumbered."""

from __future__ import annotations

from typing import NamedTuple


class ErrorEntry(NamedTuple):
    """One code; a `reserved` code keeps its number but cannot occur in this IR."""

    code: str
    meaning: str
    reserved: bool = False


_ENTRIES = (
    ErrorEntry("E1001", "invalid UTF-8"),
    ErrorEntry("E1002", "invalid character"),
    ErrorEntry("E1003", "unterminated string"),
    ErrorEntry("E1004", "invalid escape"),
    ErrorEntry("E1005", "invalid number"),
    ErrorEntry("E1006", "unterminated comment", reserved=True),
    ErrorEntry("E2001", "type mismatch"),
    ErrorEntry("E2002", "undefined name", reserved=True),
    ErrorEntry("E2003", "cannot infer type", reserved=True),
    ErrorEntry("E2004", "operand dtypes differ"),
    ErrorEntry("E2005", "wrong dtype for the op or the profile"),
    ErrorEntry("E2006", "trait not satisfied", reserved=True),
    ErrorEntry("E2007", "wrong number of operands or parameters"),
    ErrorEntry("E3001", "broadcasting fails"),
    ErrorEntry("E3002", "rank mismatch"),
    ErrorEntry("E3003", "contracted dimensions differ"),
    ErrorEntry("E3004", "axis out of range"),
    ErrorEntry("E3005", "duplicate axis"),
    ErrorEntry("E3006", "dimension zero, negative or unknown"),
    ErrorEntry("E3007", "element counts differ"),
    ErrorEntry("E3008", "not a permutation"),
    ErrorEntry("E3009", "squeezed dimension is not 1"),
    ErrorEntry("E3010", "literal shape differs"),
    ErrorEntry("E4001", "used before definition"),
    ErrorEntry("E4002", "defined twice"),
    ErrorEntry("E4003", "undefined output"),
    ErrorEntry("E4004", "bad input declaration"),
    ErrorEntry("E4005", "constant data does not fit its type"),
    ErrorEntry("E4006", "index list length"),
    ErrorEntry("E4007", "slice list lengths"),
    ErrorEntry("E4008", "slice step not positive"),
    ErrorEntry("E4009", "conv2d channels differ"),
    ErrorEntry("E4010", "conv2d strides"),
    ErrorEntry("E4011", "gather indices not integer"),
    ErrorEntry("E5001", "no derivative rule"),
    ErrorEntry("E5002", "gradient module fails verification"),
    ErrorEntry("E5003", "invalid axis in a gradient"),
    ErrorEntry("E5004", "shape not supported in a gradient"),
    ErrorEntry("E5005", "input is not differentiable"),
    ErrorEntry("E6001", "index out of bounds"),
    ErrorEntry("E6002", "engine not available"),
    ErrorEntry("E6003", "op not known, or not supported by the profile or the engine"),
    ErrorEntry("E6004", "allocation failed"),
    ErrorEntry("E6005", "numeric overflow"),
    ErrorEntry("E6006", "invalid numeric value"),
    ErrorEntry("E6007", "time limit"),
    ErrorEntry("E6008", "device error"),
)
CATALOGUE = {entry.code: entry for entry in _ENTRIES}
