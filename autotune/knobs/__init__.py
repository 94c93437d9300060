"""Schedules that users write with knobs, as spaces that are searched like those of the rules."""
