#include "block.h"
#include "report.h"
#include <cstdio>
#include <cstring>
#include <sys/mman.h>

static constexpr int ARENA_BYTES = (MOST_SHARED + 4095) / 4096 * 4096;

Block::Block() {
    void *memory = mmap(nullptr, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    arena_ = memory == MAP_FAILED ? nullptr : static_cast<unsigned char *>(memory);
}

Block::~Block() {
    if (arena_) munmap(arena_, ARENA_BYTES);
    delete[] threads_;
}

Block::Outcome Block::run(const ti_launch &launch, const uint3 &index, double end) {
    if (!is_suspended(launch)) start(launch, index);
    launch_ = &launch;
    end_ = end;
    suspended_ = -1;
    if (!failed_) pass_on();
    running_ = nullptr;
    if (suspended_ >= 0) return Outcome::suspended;
    if (!failed_ && left_) stuck();
    if (launch.checks && !failed_) checker_.flush_counts();
    if (failed_) forget();
    return failed_ ? Outcome::failed : Outcome::ended;
}

// All threads begin anew, wherever they are.
void Block::forget() {
    for (int i = 0; i < capacity_; i++) {
        threads_[i].fibre.reset();
        threads_[i].copies.clear();
        threads_[i].group = 0;
    }
}

void Block::start(const ti_launch &launch, const uint3 &index) {
    const unsigned *size = launch.block;
    if (suspended_ >= 0) forget(); // a launch that was given up
    launch_ = &launch;
    failed_ = false;
    left_ = count_ = size[0] * size[1] * size[2];
    if (count_ > capacity_) {
        if (!arena_ || !stacks_.reserve(count_)) {
            failed_ = true;
            return Report("memory").add("threads", count_).send(launch);
        }
        capacity_ = count_;
        delete[] threads_;
        threads_ = new Thread[count_];
        for (int i = 0; i < count_; i++) {
            threads_[i].number = i;
            threads_[i].fibre.prepare(stacks_.bottom(i), stacks_.size(i), thread_body, this);
        }
    }
    for (unsigned i = 0; i < unsigned(count_); i++) {
        const uint3 thread = {i % size[0], i / size[0] % size[1], i / size[0] / size[1]};
        threads_[i].place = {thread, index, {size[0], size[1], size[2]},
                             {launch.grid[0], launch.grid[1], launch.grid[2]}};
    }
    states_.assign(count_, State::ready);
    all_ = {};
    all_.members = count_;
    for (int w = 0; w * WARP < count_; w++) {
        warps_[w].meeting = {};
        warps_[w].meeting.members = lanes_of(w);
    }
    const unsigned long long block = index.x + 1000003ull * (index.y + 1000003ull * index.z);
    random_ = launch.seed ? (launch.seed + 1) * 0x9e3779b97f4a7c15 ^ block * 0xbf58476d1ce4e5b9 : 0;
    order_.resize(count_);
    for (int i = 0; i < count_; i++) order_[i] = i;
    order();
    memset(arena_, 0xff, launch.shared_bytes); // NaN
    paused_ = 0;
    if (launch.checks) checker_.begin_block(index);
}

// The next order of turns: warps in any order, and the lanes of each in any.
void Block::order() {
    turn_ = -1;
    if (!launch_->seed) return;
    const auto below = [this](int n) {
        random_ ^= random_ << 13, random_ ^= random_ >> 7, random_ ^= random_ << 17;
        return int((random_ >> 33) % n);
    };
    const int warps = (count_ + WARP - 1) / WARP;
    int places[WARP];
    for (int w = 0; w < warps; w++) {
        const int other = below(w + 1);
        places[w] = places[other];
        places[other] = w;
    }
    int at = 0;
    for (int w = 0; w < warps; w++) {
        const int first = places[w] * WARP, lanes = lanes_of(places[w]), begin = at;
        for (int lane = 0; lane < lanes; lane++, at++) {
            const int other = begin + below(lane + 1);
            order_[at] = order_[other];
            order_[other] = first + lane;
        }
    }
}

Thread *Block::next() {
    for (int i = 1; i <= count_; i++) {
        const int turn = turn_ + i < count_ ? turn_ + i : turn_ + i - count_;
        if (states_[order_[turn]] == State::ready) {
            turn_ = turn;
            return &threads_[order_[turn]];
        }
    }
    return nullptr;
}

// Give the turn to the next thread that is ready, or back to the host where there is none.
void Block::pass_on() {
    Fibre &self = running_ ? running_->fibre : host_;
    Thread *chosen = failed_ ? nullptr : next();
    if (!chosen && !failed_ && paused_) {
        wake_paused();
        chosen = next();
    }
    if (chosen == running_ && chosen) return;
    running_ = chosen;
    self.switch_to(chosen ? chosen->fibre : host_);
}

// Lets the host have a look at signals. It gives the turn to the next thread when it comes back.
bool Block::suspend_if_late() {
    if (now() < end_) return false;
    Fibre &self = running_->fibre;
    suspended_ = launch_->serial;
    running_ = nullptr;
    self.switch_to(host_);
    return true;
}

void Block::pause() {
    states_[running_->number] = State::paused;
    paused_++;
    pass_on();
}

void Block::wake_paused() {
    for (int warp = 0; warp * WARP < count_; warp++) {
        unsigned lanes = 0;
        for (int i = warp * WARP; i < warp * WARP + lanes_of(warp); i++) {
            if (states_[i] != State::paused) continue;
            states_[i] = State::ready;
            lanes |= 1u << i % WARP;
        }
        checker_.flush_counts(warp, lanes);
    }
    paused_ = 0;
}

void Block::thread_body(void *of) {
    Block &block = *static_cast<Block *>(of);
    for (;;) { // a fibre is one thread of every block
        Thread &self = block.running();
        const ti_launch &launch = block.launch();
        launch.kernel(launch.arguments);
        self.copies.clear();
        self.group = 0;
        self.waits_in = "";
        block.states_[self.number] = State::ended;
        block.left_--;
        block.pass_on();
    }
}

unsigned char *Block::arena(int bytes, int line) {
    if (bytes > launch_->shared_bytes)
        fail(report("arena", line).add("bytes", bytes).add("given", launch_->shared_bytes));
    return arena_;
}

void Block::barrier(int scope, int line) {
    if (scope == TI_BLOCK) return meet(all_, 0, "ti_sync", line, true);
    const int warp = running_->number / WARP;
    meet(warps_[warp].meeting, warp * WARP, "ti_sync_warp", line, true);
}

void Block::exchange(void *value, int size, int source, const char *what, int line) {
    const int self = running_->number, first = self / WARP * WARP;
    Warp &warp = warps_[self / WARP];
    auto &values = warp.values[warp.meeting.times % 2];
    memcpy(values[self % WARP], value, size);
    meet(warp.meeting, first, what, line, false);
    if (source < warp.meeting.members) {
        memcpy(value, values[source], size);
        return;
    }
    memset(value, 0xff, size);
    if (launch_->checks) checker_.missing_lane(source, what, line);
}

void Block::meet(Meeting &meeting, int first, const char *what, int line, bool orders) {
    if (meeting.arrived && (meeting.line != line || strcmp(meeting.what, what)))
        mismatch(meeting, what, line);
    meeting.line = line;
    meeting.what = what;
    if (++meeting.arrived < meeting.members) {
        running_->waits_in = what;
        running_->line = line;
        states_[running_->number] = State::waiting;
        return pass_on();
    }
    meeting.arrived = 0;
    meeting.times++;
    for (int i = first; i < first + meeting.members; i++) states_[i] = State::ready;
    if (&meeting != &all_) {
        if (launch_->checks) checker_.warp_barrier(first / WARP, line, what, orders);
        suspend_if_late();
        return;
    }
    if (launch_->checks) checker_.block_barrier(line, what);
    order();
    if (!suspend_if_late()) pass_on(); // the one that came last has its turn as the others
}

Report Block::report(const char *kind, int line) {
    Report report(kind);
    report.add("line", line).add("block", running_->place.block);
    return report.add("thread", running_->place.thread);
}

void Block::fail(const Report &report) {
    report.send(*launch_);
    failed_ = true;
    pass_on();
    __builtin_unreachable();
}

void Block::mismatch(const Meeting &meeting, const char *what, int line) {
    Report found = report("mismatch", line);
    found.add("lanes", &meeting != &all_);
    fail(found.add("what", what).add("other_line", meeting.line).add("other_what", meeting.what));
}

// No thread can go on. Says where each waits: threads with one place together.
void Block::stuck() {
    std::string waits;
    for (int i = 0; i < count_;) {
        const Thread &t = threads_[i];
        const bool ended = states_[i] == State::ended;
        int end = i + 1;
        while (end < count_ && (states_[end] == State::ended) == ended &&
               (ended || (threads_[end].line == t.line && threads_[end].waits_in == t.waits_in)))
            end++;
        char place[64];
        snprintf(place, sizeof(place), "%s[%d, %d, \"%.20s\", %d]", i ? ", " : "", i, end,
                 ended ? "" : t.waits_in, ended ? 0 : t.line);
        waits += place;
        i = end;
    }
    failed_ = true;
    Report report("stuck");
    report.add("block", threads_[0].place.block).add("threads", count_);
    report.raw("waits", "[" + waits + "]").send(*launch_);
}
