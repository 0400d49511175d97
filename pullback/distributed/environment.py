"""Environment variables through which a launcher tells processes about each other."""

COORDINATOR = "PULLBACK_COORDINATOR"  # host:port of process 0
COUNT = "PULLBACK_NUM_PROCESSES"
INDEX = "PULLBACK_PROCESS_ID"
LAUNCHER = "PULLBACK_LAUNCHER"  # file descriptor to which a process reports one that is lost
