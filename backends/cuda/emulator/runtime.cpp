// The functions that kernels call, and launches. See docs/cuda_emulator.md.
#include "block.h"
#include "report.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

static thread_local std::unique_ptr<Block> blocks_here;

Block *current_block() { return blocks_here.get(); }

// Runs blocks until there are none, time is up, or one failed.
static void work(const ti_launch &launch, std::atomic<long long> &next, std::atomic<bool> &failed,
                 double seconds) {
    using clock = std::chrono::steady_clock;
    const auto end = clock::now() + std::chrono::duration<double>(seconds);
    const unsigned *grid = launch.grid;
    const long long blocks = 1ll * grid[0] * grid[1] * grid[2];
    if (!blocks_here) blocks_here = std::make_unique<Block>();
    do {
        const long long i = next++;
        if (i >= blocks) return;
        const uint3 index = {unsigned(i % grid[0]), unsigned(i / grid[0] % grid[1]),
                             unsigned(i / grid[0] / grid[1])};
        if (!blocks_here->run(launch, index)) failed = true;
    } while (!failed && clock::now() < end);
}

long long ti_emulator_launch(const ti_launch *launch, long long first, double seconds) {
    const long long blocks = 1ll * launch->grid[0] * launch->grid[1] * launch->grid[2];
    std::atomic<long long> next(first);
    std::atomic<bool> failed(false);
    if (!blocks_here) blocks_here = std::make_unique<Block>();
    if (launch->checks && first == 0) blocks_here->checker().begin_launch(*launch);
    std::vector<std::thread> others;
    for (int i = 1; i < launch->workers; i++)
        others.emplace_back([&] { work(*launch, next, failed, seconds); });
    work(*launch, next, failed, seconds);
    for (std::thread &other : others) other.join();
    if (launch->checks && (failed || next >= blocks)) blocks_here->checker().end_launch();
    return failed ? -1 : std::min<long long>(next, blocks);
}

const ti_place *ti_emulator_place() { return &blocks_here->running().place; }

unsigned char *ti_emulator_arena(int bytes, int line) { return blocks_here->arena(bytes, line); }

void ti_emulator_barrier(int scope, int line) { blocks_here->barrier(scope, line); }

void ti_emulator_exchange(void *value, int size, int source, const char *what, int line) {
    blocks_here->exchange(value, size, source, what, line);
}

void ti_emulator_misaligned(const char *name, const void *address, int bytes, int line) {
    Report report = blocks_here->report("alignment", line);
    report.add("buffer", name).add("bytes", bytes).add("off", (unsigned long)address % bytes);
    blocks_here->fail(report);
}

// An asynchronous copy is done when its group is waited for, which is as late as it can be; until
// then its place holds NaN.
void ti_emulator_copy_async(void *to, const void *from, int bytes) {
    auto &groups = blocks_here->running().copies;
    if (groups.empty()) groups.emplace_back();
    memset(to, 0xff, bytes);
    groups.back().push_back({to, from, bytes, {}, 0, 0});
}

void ti_emulator_copy_async_checked(const ti_buffer *to, long long i, const ti_buffer *from,
                                    long long j, int count, int line) {
    Block &block = *blocks_here;
    const bool fine = block.checker().touch(*from, j, count, TI_READ, line);
    if (!block.checker().touch(*to, i, count, TI_COPY, line) || !fine) return;
    const int size = to->itemsize;
    ti_emulator_copy_async(to->data + i * size, from->data + j * size, count * size);
    Copy &copy = block.running().copies.back().back();
    copy.buffer = *to;
    copy.index = i;
    copy.line = line;
}

void ti_emulator_copy_async_commit() { blocks_here->running().copies.emplace_back(); }

void ti_emulator_copy_async_wait(int pending) {
    auto &groups = blocks_here->running().copies; // the last one is open, and not counted
    while (int(groups.size()) > pending + 1) {
        for (const Copy &copy : groups.front()) {
            memcpy(copy.to, copy.from, copy.bytes);
            if (copy.buffer.data) blocks_here->checker().finish_copy(copy);
        }
        groups.pop_front();
    }
}
