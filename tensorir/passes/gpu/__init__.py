"""Lowering passes of programs for GPUs."""
