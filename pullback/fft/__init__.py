"""Discrete Fourier, cosine and sine transforms.

Lengths may have any factors. All transforms are linear: they have derivatives of every order, are
batched by `vmap`, and on a mesh the transformed axes are whole while others may be split. Results
of f32 are complex64, of f64 complex128; integers become the default float, f16 and bf16 f32.

>>> pb.fft.rfft([1.0, 2.0, 1.0, 0.0]).tolist()
[(4+0j), -2j, 0j]
"""

from pullback.fft.complex_transforms import fft, fft2, fftn, ifft, ifft2, ifftn
from pullback.fft.cosine_sine import dct, dctn, dst, dstn, idct, idctn, idst, idstn
from pullback.fft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from pullback.fft.hermitian_transforms import hfft, hfft2, hfftn, ihfft, ihfft2, ihfftn
from pullback.fft.real_transforms import irfft, irfft2, irfftn, rfft, rfft2, rfftn
from pullback.fft.short_time import istft, stft
from pullback.graph.boundary import publish

__all__ = [
    "dct", "dctn", "dst", "dstn", "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2",
    "hfftn", "idct", "idctn", "idst", "idstn", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft",
    "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "istft", "rfft", "rfft2", "rfftfreq", "rfftn",
    "stft",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


publish(__name__)
