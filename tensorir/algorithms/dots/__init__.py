"""Sums of products as dot products want them: types and orders of both operands."""
