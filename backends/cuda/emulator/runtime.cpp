// The functions that kernels call, and launches. See docs/cuda_emulator.md.
#include "block.h"
#include "report.h"
#include <cmath>
#include <cstring>
#include <ctime>
#include <pthread.h>

// The block of this thread of the system, kept for its stacks.
static thread_local Block *here = nullptr;

static void make_block() {
    static thread_local struct Kept {
        Kept() { here = new Block; }
        ~Kept() { delete here; }
    } kept;
}

Block *current_block() { return here; }

// The blocks of a launch that several threads of the system take in turn.
struct Work {
    const ti_launch &launch;
    long long blocks, first, next;
    double end;
    bool failed;
};

double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

// Runs blocks until there are none, time is up, or one failed.
static void *run_blocks(void *given) {
    Work &work = *static_cast<Work *>(given);
    const unsigned *grid = work.launch.grid;
    const double end = work.launch.workers > 1 || work.launch.checks ? HUGE_VAL : work.end;
    make_block();
    do {
        long long i = work.first;
        if (!here->is_suspended(work.launch)) i = __atomic_fetch_add(&work.next, 1, __ATOMIC_RELAXED);
        if (i >= work.blocks) break;
        const uint3 index = {unsigned(i % grid[0]), unsigned(i / grid[0] % grid[1]),
                             unsigned(i / grid[0] / grid[1])};
        const Block::Outcome outcome = here->run(work.launch, index, end);
        if (outcome == Block::Outcome::failed) __atomic_store_n(&work.failed, true, __ATOMIC_RELAXED);
    } while (!__atomic_load_n(&work.failed, __ATOMIC_RELAXED) && now() < work.end);
    return nullptr;
}

long long ti_emulator_launch(const ti_launch *launch, long long first, double seconds) {
    const long long blocks = 1ll * launch->grid[0] * launch->grid[1] * launch->grid[2];
    make_block();
    const bool goes_on = here->is_suspended(*launch);
    Work work = {*launch, blocks, first, first + goes_on, now() + seconds, false};
    if (launch->checks) here->checker().begin_launch(*launch);
    std::vector<pthread_t> others;
    for (int i = 1; i < launch->workers; i++) {
        pthread_t other;
        if (!pthread_create(&other, nullptr, run_blocks, &work)) others.push_back(other);
    }
    run_blocks(&work);
    for (const pthread_t other : others) pthread_join(other, nullptr);
    if (launch->checks) here->checker().end_launch();
    if (work.failed) return -1;
    if (here->is_suspended(*launch)) return work.next - 1;
    return work.next < blocks ? work.next : blocks;
}

const ti_place *ti_emulator_place() { return &here->running().place; }

unsigned char *ti_emulator_arena(int bytes, int line) { return here->arena(bytes, line); }

void ti_emulator_barrier(int scope, int line) { here->barrier(scope, line); }

void ti_emulator_exchange(void *value, int size, int source, const char *what, int line) {
    here->exchange(value, size, source, what, line);
}

void ti_emulator_misaligned(const char *name, const void *address, int bytes, int line) {
    Report report = here->report("alignment", line);
    report.add("buffer", name).add("bytes", bytes).add("off", (unsigned long)address % bytes);
    here->fail(report);
}

// An asynchronous copy is done when its group is waited for, which is as late as it can be; until
// then its place holds NaN.
void ti_emulator_copy_async(void *to, const void *from, int bytes) {
    Thread &self = here->running();
    memset(to, 0xff, bytes);
    self.copies.push_back({self.group, to, from, bytes, {}, 0, 0});
}

void ti_emulator_copy_async_checked(const ti_buffer *to, long long i, const ti_buffer *from,
                                    long long j, int count, int line) {
    Block &block = *here;
    const bool fine = block.checker().touch(*from, j, count, TI_READ, line);
    if (!block.checker().touch(*to, i, count, TI_COPY, line) || !fine) return;
    const int size = to->itemsize;
    ti_emulator_copy_async(to->data + i * size, from->data + j * size, count * size);
    Copy &copy = block.running().copies.back();
    copy.buffer = *to;
    copy.index = i;
    copy.line = line;
}

void ti_emulator_copy_async_commit() { here->running().group++; }

void ti_emulator_copy_async_wait(int pending) {
    Thread &self = here->running();
    size_t done = 0;
    while (done < self.copies.size() && self.copies[done].group < self.group - pending) {
        const Copy &copy = self.copies[done++];
        memcpy(copy.to, copy.from, copy.bytes);
        if (copy.buffer.data) here->checker().finish_copy(copy);
    }
    self.copies.erase(self.copies.begin(), self.copies.begin() + done);
}
