"""Methods of Tensor that are public functions, under the names of PyTorch's methods."""

from __future__ import annotations

from pullback.lazy.methods import functions


class TorchNames:
    """Functions that mean the same as PyTorch's methods; `methods.py` has those of NumPy."""

    __slots__ = ()

    absolute = functions.abs
    addbmm = functions.addbmm
    addcdiv = functions.addcdiv
    addcmul = functions.addcmul
    addmm = functions.addmm
    addmv = functions.addmv
    addr = functions.addr
    allclose = functions.allclose
    angle = functions.angle
    arccos = functions.acos
    arccosh = functions.acosh
    arcsin = functions.asin
    arcsinh = functions.asinh
    arctan = functions.atan
    arctan2 = functions.atan2
    arctanh = functions.atanh
    argwhere = functions.argwhere
    baddbmm = functions.baddbmm
    bincount = functions.bincount
    bitwise_and = functions.bitwise_and
    bitwise_left_shift = functions.bitwise_left_shift
    bitwise_not = functions.bitwise_invert
    bitwise_or = functions.bitwise_or
    bitwise_right_shift = functions.bitwise_right_shift
    bitwise_xor = functions.bitwise_xor
    bmm = functions.matmul
    clamp = functions.clip
    clone = functions.positive
    contiguous = functions.contiguous
    copysign = functions.copysign
    deg2rad = functions.deg2rad
    diag = functions.diag
    diag_embed = functions.diag_embed
    diagflat = functions.diagflat
    diagonal_scatter = functions.diagonal_scatter
    digamma = functions.digamma
    divide = functions.divide
    eq = functions.equal
    erfc = functions.erfc
    erfinv = functions.erfinv
    fix = functions.trunc
    fliplr = functions.fliplr
    flipud = functions.flipud
    float_power = functions.float_power
    floor_divide = functions.floor_divide
    fmax = functions.fmax
    fmin = functions.fmin
    fmod = functions.fmod
    frac = functions.frac
    ge = functions.greater_equal
    greater = functions.greater
    greater_equal = functions.greater_equal
    gt = functions.greater
    heaviside = functions.heaviside
    hypot = functions.hypot
    index_copy = functions.index_copy
    index_fill = functions.index_fill
    index_reduce = functions.index_reduce
    inner = functions.inner
    isneginf = functions.isneginf
    isposinf = functions.isposinf
    kron = functions.kron
    ldexp = functions.ldexp
    le = functions.less_equal
    lerp = functions.lerp
    less = functions.less
    less_equal = functions.less_equal
    lgamma = functions.lgamma
    logaddexp = functions.logaddexp
    logaddexp2 = functions.logaddexp2
    lt = functions.less
    masked_scatter = functions.masked_scatter
    mm = functions.matmul
    movedim = functions.moveaxis
    mul = functions.multiply
    multiply = functions.multiply
    mv = functions.matmul
    nan_to_num = functions.nan_to_num
    nanmean = functions.nanmean
    nansum = functions.nansum
    ne = functions.not_equal
    neg = functions.negative
    negative = functions.negative
    nextafter = functions.nextafter
    not_equal = functions.not_equal
    quantile = functions.quantile
    rad2deg = functions.rad2deg
    repeat_interleave = functions.repeat
    rot90 = functions.rot90
    scatter_add = functions.scatter_add
    scatter_reduce = functions.scatter_reduce
    select_scatter = functions.select_scatter
    signbit = functions.signbit
    sinc = functions.sinc
    slice_scatter = functions.slice_scatter
    subtract = functions.subtract
    swapdims = functions.swapaxes
    true_divide = functions.divide
    unbind = functions.unstack
    vdot = functions.vdot
