"""jaxlib, imported after setting the environment variables that XLA reads.

Nothing else in pullback imports jaxlib. Tested with jaxlib 0.10 to 0.12.
"""

from __future__ import annotations

import os

# XLA's results depend on the number of its threads, by default the cores that the process may use.
# It is set to the cores of the machine, so that a process confined to some of them gets the same
# bits; PULLBACK_THREADS sets another number.
THREADS = int(os.environ.get("PULLBACK_THREADS") or os.environ.get("NPROC") or os.cpu_count() or 1)
# Loading machine code, XLA logs false errors about features of the processor. Real errors are
# raised as well, so only fatal ones are printed.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["NPROC"] = str(THREADS)

from jaxlib import _jax, version, xla_client  # noqa: E402

__all__ = ["THREADS", "_jax", "version", "xla_client"]
