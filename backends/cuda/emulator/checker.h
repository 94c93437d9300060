// What a checked run remembers: who touched which element last, and how the lanes of a warp did it.
#pragma once
#include "counts.h"
#include "launch.h"
#include "report.h"
#include <vector>

class Block;

// An access of a thread, in one word: 32 bits for the time, 10 for the thread, a flag, 21 for the line. A barrier of the
// block or of a warp, a block and a launch begin a time of their own.
struct Access {
    static constexpr unsigned long long LINES = (1 << 21) - 1, FLAG = 1 << 21;
    unsigned long long word = 0; // 0: there was none
    unsigned time() const { return word >> 32; }
    unsigned thread() const { return word >> 22 & 1023; }
    bool flag() const { return word & FLAG; }
    int line() const { return word & LINES; }
    Access flagged(bool flag) const { return {flag ? word | FLAG : word}; }
    // Whether there is nothing between the two, and no flag.
    bool is_repeated(Access by) const { return !((word ^ by.word) & ~LINES); }
};

// What is remembered of `granule` bytes; all zeros at first. Of the reads since the last write as few as show every
// race: the last one; one of another lane of its warp; one of another warp; one of another block. The flag of a writer
// says that it is an asynchronous copy that was not waited for, of a reader that something was wrong.
struct Cell {
    Access writer, reader, other_lane, other_warp, other_block;
};

// Cells of zeros; those that are never touched take no memory.
Cell *new_cells(long long count);

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
    unsigned long begin_step(long long number, int line);
    void end_step(unsigned long before);

    ti_buffer part(const char *name, unsigned char *data, int offset, int elements, int itemsize);
    bool touch(const ti_buffer &buffer, long long index, int count, int access, int line);
    void local_fault(const char *name, long long index, int count, int elements, int access, int line);
    void finish_copy(const struct Copy &copy);
    void missing_lane(int source, const char *what, int line);
    int last_line() const { return last_line_; }

private:
    bool wants(int check) const { return launch_->checks & check; }
    void out_of_bounds(const char *name, long long index, int count, long long elements, int access, int line);
    void note_read(Cell &cell, const ti_buffer &buffer, long long element, Access self);
    void note_write(Cell &cell, const ti_buffer &buffer, long long element, Access self);
    bool ordered(Access before, Access self, bool shared) const;
    void race(const char *kind, Access before, Access self, const ti_buffer &buffer, long long element);
    // Sends a report of each kind, buffer and pair of lines once, and counts the others.
    template <class Fill>
    void found(const char *kind, int line, const char *buffer, int other_line, Fill fill);

    Block &block_;
    const ti_launch *launch_ = nullptr;
    unsigned time_ = 0, launch_first_ = 0, block_first_ = 0;
    unsigned interval_first_ = 0; // since the last barrier of the block
    std::vector<unsigned> warp_first_; // since the last one of each warp
    struct Begun {
        unsigned first; // time
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
