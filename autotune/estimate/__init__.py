"""The time that nests of a contraction take on a CPU, in cycles."""
