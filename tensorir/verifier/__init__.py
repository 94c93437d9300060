"""Whether a program is well formed, stays inside its buffers, and may run as it says."""
