"""Build the site into build/docs: `python -m tools.site`."""

from __future__ import annotations

import time

from tools.site.build import OUT, ROOT, update

if __name__ == "__main__":
    start = time.perf_counter()
    update()
    print(f"{(OUT / 'index.html').relative_to(ROOT)} ({time.perf_counter() - start:.0f} s)")
