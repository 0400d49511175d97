"""The command line: `pullback ir verify model.ir` and other commands."""
