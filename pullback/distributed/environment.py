"""Environment variables through which a launcher tells processes about each other."""

COORDINATOR = "PULLBACK_COORDINATOR"  # host:port of process 0
COUNT = "PULLBACK_NUM_PROCESSES"
INDEX = "PULLBACK_PROCESS_ID"
LAUNCHER = "PULLBACK_LAUNCHER"  # file descriptor to which a process reports one that is lost
SECRET = "PULLBACK_SECRET"  # what only the processes of one job know
LISTEN = "PULLBACK_LISTEN"  # where process 0 listens, if not at the coordinator's host
