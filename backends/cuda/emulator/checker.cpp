#include "checker.h"
#include "block.h"
#include <cstdlib>
#include <cstring>

static int granule = 16; // of the arena: the smallest element of any part of it

int ti_emulator_note_itemsize(int itemsize) { return granule = granule < itemsize ? granule : itemsize; }

Cell *new_cells(long long count) {
    void *memory = calloc(count, sizeof(Cell));
    if (!memory) abort();
    return static_cast<Cell *>(memory);
}

Checker::~Checker() { free(arena_); }

void Checker::begin_launch(const ti_launch &launch) {
    launch_ = &launch;
    launch_first_ = ++time_;
    blocks_.clear();
    found_.clear();
    counts_.clear();
    if (!arena_) arena_ = new_cells(MOST_SHARED / granule + 1);
}

void Checker::end_launch() {
    counts_.send(*launch_);
    for (size_t i = 0; i < found_.size(); i++)
        if (found_[i].count > 1) Report("again").add("of", i).add("count", found_[i].count).send(*launch_);
}

void Checker::begin_block(const uint3 &index) {
    block_first_ = interval_first_ = ++time_;
    blocks_.push_back({block_first_, index});
    warp_first_.assign(WARP, block_first_);
}

void Checker::block_barrier(int line, const char *what) {
    interval_first_ = ++time_;
    if (wants(TI_CHECK_COUNTS)) counts_.flush(), counts_.barrier(line, what);
}

void Checker::warp_barrier(int warp, int line, const char *what, bool orders) {
    if (orders) warp_first_[warp] = ++time_;
    if (wants(TI_CHECK_COUNTS)) counts_.flush(warp), counts_.barrier(line, what);
}

void Checker::flush_counts() {
    if (wants(TI_CHECK_COUNTS)) counts_.flush();
}

unsigned long Checker::begin_step(long long number, int line) {
    return wants(TI_CHECK_COUNTS) ? counts_.begin_step(block_.running().number, number, line) : 0;
}

void Checker::end_step(unsigned long before) {
    if (wants(TI_CHECK_COUNTS)) counts_.end_step(block_.running().number, before);
}

ti_buffer Checker::part(const char *name, unsigned char *data, int offset, int elements, int itemsize) {
    return {data, elements, itemsize, 1, 0, name, &arena_[offset / granule], itemsize / granule};
}

bool Checker::touch(const ti_buffer &buffer, long long index, int count, int access, int line) {
    last_line_ = line;
    const bool part = access & TI_PART;
    access &= ~TI_PART;
    if (index < 0 || index + count > buffer.elements) {
        out_of_bounds(buffer.name, index, count, buffer.elements, access, line);
        return false;
    }
    const unsigned long bytes = count * buffer.itemsize; // a power of two, of what is no part
    const unsigned long address = (unsigned long)buffer.data + index * buffer.itemsize;
    if (!part && address & (bytes - 1))
        found("alignment", line, buffer.name, 0,
              [&](Report &r) { r.add("bytes", bytes).add("off", address % bytes); });
    const int thread = block_.running().number;
    if (wants(TI_CHECK_COUNTS) && !part) {
        // Arrays of a GPU begin at the beginning of a sector.
        const unsigned long place = buffer.shared ? address : index * buffer.itemsize;
        if (counts_.touch(thread, buffer, place, bytes, access != TI_READ, line)) block_.pause();
    }
    const unsigned long long number = thread; // of 1024 threads: as int its highest bit would be a sign
    const Access self = {(unsigned long long)time_ << 32 | number << 22 | (line & Access::LINES)};
    const int each = buffer.each;
    Cell *cell = static_cast<Cell *>(buffer.cells) + index * each;
    for (long long element = index; element < index + count; element++)
        for (int i = 0; i < each; i++, cell++) {
            if (access != TI_READ)
                note_write(*cell, buffer, element, self.flagged(access == TI_COPY));
            else if (cell->reader.is_repeated(self))
                cell->reader = self;
            else
                note_read(*cell, buffer, element, self);
        }
    return true;
}

void Checker::out_of_bounds(const char *name, long long index, int count, long long elements, int access,
                            int line) {
    found("bounds", line, name, 0, [&](Report &r) {
        r.add("index", index).add("count", count).add("elements", elements);
        r.add("write", access != TI_READ);
    });
}

void Checker::local_fault(const char *name, long long index, int count, int elements, int access,
                          int line) {
    last_line_ = line;
    if (index < 0 || index + count > elements)
        out_of_bounds(name, index, count, elements, access, line);
    else if (index % count)
        found("alignment", line, name, 0, [&](Report &r) { r.add("elements", count).add("index", index); });
    else if (wants(TI_CHECK_UNINITIALISED))
        found("uninitialised", line, name, 0, [&](Report &r) { r.add("index", index); });
}

void Checker::note_read(Cell &cell, const ti_buffer &buffer, long long element, Access self) {
    const Access writer = cell.writer;
    const bool pending = writer.flag(), written = writer.time() >= (buffer.shared ? block_first_ : 1);
    const bool unknown = wants(TI_CHECK_UNINITIALISED) && !buffer.given && (pending || !written);
    if (unknown)
        found(pending ? "wait" : "uninitialised", self.line(), buffer.name, pending ? writer.line() : 0,
              [&](Report &r) { r.add("index", element); });
    if (!wants(TI_CHECK_RACES)) return;
    const bool races = !ordered(writer, self, buffer.shared);
    if (races) race("read", writer, self, buffer, element);
    const Access last = cell.reader;
    if (last.time() >= interval_first_ && last.thread() != self.thread())
        (last.thread() / WARP == self.thread() / WARP ? cell.other_lane : cell.other_warp) = last;
    else if (last.time() >= launch_first_ && last.time() < block_first_)
        cell.other_block = last;
    cell.reader = self.flagged(unknown || races);
}

void Checker::note_write(Cell &cell, const ti_buffer &buffer, long long element, Access self) {
    const auto first = [&](Access before, const char *kind) {
        const bool found = !ordered(before, self, buffer.shared);
        if (found) race(kind, before, self, buffer, element);
        return found;
    };
    if (wants(TI_CHECK_RACES))
        first(cell.writer, "write") || first(cell.reader, "read first") ||
            first(cell.other_lane, "read first") || first(cell.other_warp, "read first") ||
            first(cell.other_block, "read first");
    cell = {self};
}

// Two accesses of one block are ordered where a barrier of the block, or, within one warp, one of the warp lies between.
bool Checker::ordered(Access before, Access self, bool shared) const {
    const unsigned time = before.time();
    if (time < launch_first_) return true; // never, or by an earlier launch
    if (time < block_first_) return shared;
    if (time < interval_first_ || before.thread() == self.thread()) return true;
    const unsigned warp = self.thread() / WARP;
    return before.thread() / WARP == warp && time < warp_first_[warp];
}

void Checker::race(const char *kind, Access before, Access self, const ti_buffer &buffer, long long element) {
    found("race", self.line(), buffer.name, before.line(), [&](Report &r) {
        size_t block = blocks_.size() - 1;
        while (blocks_[block].first > before.time()) block--;
        r.add("how", kind).add("index", element).add("other_block", blocks_[block].block);
        r.add("other_thread", block_.thread(before.thread()).place.thread);
    });
}

void Checker::finish_copy(const Copy &copy) {
    const int count = copy.bytes / copy.buffer.itemsize;
    touch(copy.buffer, copy.index, count, TI_WRITE | TI_PART, copy.line);
}

void Checker::missing_lane(int source, const char *what, int line) {
    if (wants(TI_CHECK_LANES))
        found("lanes", line, "", 0, [&](Report &r) { r.add("source", source).add("what", what); });
}

template <class Fill>
void Checker::found(const char *kind, int line, const char *buffer, int other_line, Fill fill) {
    for (Found &known : found_)
        if (known.line == line && known.other_line == other_line && !strcmp(known.kind, kind) &&
            !strcmp(known.buffer, buffer)) {
            known.count++;
            return;
        }
    Report report = block_.report(kind, line);
    report.add("id", found_.size()).add("buffer", buffer);
    found_.push_back({kind, buffer, line, other_line, 1});
    if (other_line) report.add("other_line", other_line);
    fill(report);
    report.send(*launch_);
}

// The functions that checked kernels call.

static Checker &checker() { return current_block()->checker(); }

ti_buffer ti_emulator_part(const char *name, int offset, int elements, int itemsize) {
    Block &block = *current_block();
    return checker().part(name, block.arena(0, 0) + offset, offset, elements, itemsize);
}

int ti_emulator_touch(const ti_buffer *buffer, long long index, int count, int access, int line) {
    return checker().touch(*buffer, index, count, access, line);
}

unsigned long ti_emulator_begin_step(long long number, int line) {
    return checker().begin_step(number, line);
}

void ti_emulator_end_step(unsigned long before) { checker().end_step(before); }

int ti_emulator_local_fault(const char *name, long long index, int count, int elements, int access,
                            int line) {
    checker().local_fault(name, index, count, elements, access, line);
    return index >= 0 && index + count <= elements;
}
