// What the host knows of the runtime. Compiled kernels know interface.h alone.
#pragma once
#include "interface.h"

struct ti_launch {
    long long serial; // no two launches of a process have the same
    void (*kernel)(void *const *);
    void *const *arguments;
    unsigned grid[3], block[3];
    int shared_bytes;
    int checks;              // TI_CHECK_...; 0 for kernels that were not compiled for checks
    unsigned long long seed; // 0: threads run in their order; else in a random one
    int workers;             // threads of the system; 1 for a checked run
    int report_file;         // where reports are written at once; -1: into `report`
    char *report;
    int report_size;
};

// TI_CHECKED: bounds and alignment, which are checked in any checked run
enum {
    TI_CHECKED = 1,
    TI_CHECK_RACES = 2,
    TI_CHECK_UNINITIALISED = 4,
    TI_CHECK_LANES = 8,
    TI_CHECK_COUNTS = 16
};

extern "C" {
// Runs blocks from `first` on for about `seconds`; returns the first one that has not ended, for the
// next call, or the number of blocks when all have, or -1 where a thread did what ends a kernel;
// `report` says what. A single worker stops at a barrier too, and goes on from there.
long long ti_emulator_launch(const ti_launch *launch, long long first, double seconds);
}
