"""jaxlib, imported with the environment that XLA reads when it is loaded.

Nothing else in pullback imports jaxlib. Tried with jaxlib 0.10 to 0.12.
"""

from __future__ import annotations

import os

# XLA's results depend on the number of threads it uses, by default the cores it may run on. It is
# pinned to the cores of the machine, so that a process confined to some of them gives the same
# bits; PULLBACK_THREADS sets another number.
THREADS = int(os.environ.get("PULLBACK_THREADS") or os.environ.get("NPROC") or os.cpu_count() or 1)
# Loading machine code, XLA logs errors about features of the processor that are none. What goes
# wrong is raised as well; only what ends the process is still printed.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["NPROC"] = str(THREADS)

from jaxlib import _jax, version, xla_client  # noqa: E402

__all__ = ["THREADS", "_jax", "version", "xla_client"]
