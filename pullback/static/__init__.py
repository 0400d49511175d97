"""The static IR: programs as text that can be read, verified, differentiated and run."""
