"""Sketch rules for GPUs: which schedules of `schedule.library.gpu` suit a group, and how."""
