"""Facts of a scheduled program: who uses what, and which loops carry a dependence."""
