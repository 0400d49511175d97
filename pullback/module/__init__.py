"""What stands above the transforms: modules are differentiated, run, made from functions."""
