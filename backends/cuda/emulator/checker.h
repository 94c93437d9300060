// What a checked run remembers: who touched which element last, and how the lanes of a warp did it.
#pragma once
#include "counts.h"
#include "launch.h"
#include "report.h"
#include <vector>

class Block;

// An access of a thread. Two accesses of one block are ordered where they lie in two intervals
// between barriers of the block, or, within one warp, between barriers of the warp.
struct Access {
    unsigned interval = 0; // 0: there was none
    unsigned warp_interval = 0;
    unsigned thread : 10, line : 22;
    Access() : thread(0), line(0) {}
};

// What is remembered of `granule` bytes; all zeros at first. Of the reads since the last write as few as show every
// race: the last one; one of another lane of its warp; one of another warp; one of another block.
struct Cell {
    Access writer, reader, other_lane, other_warp, other_block;
    unsigned written = 0; // NEVER, PENDING, or when
};

// Cells of zeros; those that are never touched take no memory.
Cell *new_cells(long long count);

enum : unsigned { NEVER, PENDING, FIRST_TIME };

class Checker {
public:
    explicit Checker(Block &block) : block_(block) {}
    ~Checker();

    void begin_launch(const ti_launch &launch);
    void end_launch();
    void begin_block(const uint3 &index);
    void block_barrier(int line, const char *what);
    void warp_barrier(int warp, int line, const char *what, bool orders);
    void flush_counts();
    void flush_counts(int warp, unsigned lanes) { counts_.flush(warp, lanes); }

    ti_buffer part(const char *name, unsigned char *data, int offset, int elements, int itemsize);
    bool touch(const ti_buffer &buffer, long long index, int count, int access, int line);
    void local_fault(const char *name, long long index, int count, int elements, int access, int line);
    void finish_copy(const struct Copy &copy);
    void missing_lane(int source, const char *what, int line);
    int last_line() const { return last_line_; }

private:
    bool wants(int check) const { return launch_->checks & check; }
    bool in_bounds(const char *name, long long index, int count, long long elements, int access, int line);
    void note_read(Cell &cell, const ti_buffer &buffer, long long element, const Access &now);
    void note_write(Cell &cell, const ti_buffer &buffer, long long element, const Access &now);
    bool ordered(const Access &before, const Access &now, bool shared) const;
    void race(const char *kind, const Access &before, const Access &now, const ti_buffer &buffer,
              long long element);
    Access now(int line) const;
    // Sends a report of each kind, buffer and pair of lines once, and counts the others.
    template <class Fill>
    void found(const char *kind, int line, const char *buffer, int other_line, Fill fill);

    Block &block_;
    const ti_launch *launch_ = nullptr;
    unsigned interval_ = FIRST_TIME, launch_first_ = 0, block_first_ = 0;
    std::vector<unsigned> warp_intervals_;
    struct Begun {
        unsigned first; // interval
        uint3 block;
    };
    struct Found {
        const char *kind, *buffer;
        int line, other_line;
        long long count;
    };
    std::vector<Begun> blocks_; // of this launch
    Cell *arena_ = nullptr;
    std::vector<Found> found_;
    Counts counts_;
    int last_line_ = 0;
};
