"""Where arrays lie that lanes access together: sectors of memory, banks of shared memory."""
