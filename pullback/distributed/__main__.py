"""`python -m pullback.distributed --nproc 4 train.py --epochs 3`"""

from pullback.distributed.launcher import main

if __name__ == "__main__":
    raise SystemExit(main())
