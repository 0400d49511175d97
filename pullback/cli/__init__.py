"""The command line: `pullback ir verify model.ir`, and its relatives."""
