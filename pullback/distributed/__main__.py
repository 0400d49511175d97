"""`python -m pullback.distributed --nproc 4 train.py --epochs 3`"""

from pullback.distributed.launcher import launcher_main

if __name__ == "__main__":
    raise SystemExit(launcher_main())
