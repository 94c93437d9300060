"""Where candidates are built and run: processes here, executors, devices of clusters."""
