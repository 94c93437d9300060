// One block of threads, run by one thread of the system.
#pragma once
#include "checker.h"
#include "fibre.h"
#include "launch.h"
#include <vector>

constexpr int WARP = 32;
constexpr int MOST_SHARED = 227 * 1024;

enum class State : char { ready, waiting, paused, ended };

struct Copy {
    int group;
    void *to;
    const void *from;
    int bytes;
    ti_buffer buffer; // of a checked run, and the element and the line there
    long long index;
    int line;
};

struct Thread {
    Fibre fibre;
    int number; // in the block
    ti_place place;
    const char *waits_in = "";
    int line = 0;
    std::vector<Copy> copies; // asynchronous ones that are not done
    int group = 0;            // the one that is open
};

// Threads that wait for each other. Every member passes it as often as the others.
struct Meeting {
    int members = 0, arrived = 0, line = 0;
    const char *what = "";
    unsigned times = 0;
};

struct Warp {
    Meeting meeting;
    alignas(16) unsigned char values[2][WARP][16]; // of exchanges, by the parity of `times`
};

class Block {
public:
    Block();
    ~Block();
    enum class Outcome { ended, failed, suspended };
    // Runs one block, or what is left of the one that is suspended, until about the time `end`.
    Outcome run(const ti_launch &launch, const uint3 &index, double end);
    // Whether a block of this launch is suspended.
    bool is_suspended(const ti_launch &launch) const { return suspended_ == launch.serial; }

    Checker &checker() { return checker_; }
    Thread &running() { return *running_; }
    bool is_running() const { return running_; }
    Thread &thread(int i) { return threads_[i]; }
    const ti_launch &launch() const { return *launch_; }
    unsigned char *arena(int bytes, int line);
    void barrier(int scope, int line);
    void exchange(void *value, int size, int source, const char *what, int line);
    // The running thread goes on when all others wait.
    void pause();
    [[noreturn]] void fail(const Report &report);
    // A report about the running thread.
    Report report(const char *kind, int line);

private:
    int lanes_of(int warp) const {
        return count_ - warp * WARP < WARP ? count_ - warp * WARP : WARP;
    }
    void start(const ti_launch &launch, const uint3 &index);
    void forget();
    void order();
    Thread *next();
    void pass_on();
    bool suspend_if_late();
    void wake_paused();
    void meet(Meeting &meeting, int first, const char *what, int line, bool orders);
    [[noreturn]] void mismatch(const Meeting &meeting, const char *what, int line);
    void stuck();
    static void thread_body(void *block);

    const ti_launch *launch_ = nullptr;
    Stacks stacks_;
    Fibre host_;
    Thread *threads_ = nullptr;
    int count_ = 0, capacity_ = 0, left_ = 0;
    Thread *running_ = nullptr;
    std::vector<State> states_;          // by thread
    std::vector<unsigned short> order_;  // the threads, as they are given turns
    int turn_ = 0, paused_ = 0;
    unsigned long long random_ = 0;
    Meeting all_;
    Warp warps_[WARP];
    unsigned char *arena_;
    double end_ = 0;
    long long suspended_ = -1; // the launch of the block that has not ended
    bool failed_ = false;
    Checker checker_{*this};
};

Block *current_block();
double now(); // in seconds
