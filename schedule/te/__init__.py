"""Schedules in the style of TVM's tensor expressions: requests to stages, met by primitives."""
