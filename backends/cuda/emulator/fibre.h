// Fibres: functions with stacks of their own that one thread of the system runs in turn.
#pragma once
#include <csetjmp>
#include <cstddef>

class Fibre {
public:
    Fibre() = default;
    Fibre(const Fibre &) = delete;

    // Continue `next`, and come back when somebody continues this one. `next` begins with
    // `body(of)` when it has not begun; that must not return.
    void switch_to(Fibre &next);
    void prepare(char *stack, size_t size, void (*body)(void *), void *of);
    // Forget where it was: it begins anew.
    void reset() { begun_ = false; }

private:
    [[noreturn]] void begin();

    jmp_buf registers_;
    char *stack_ = nullptr;
    size_t size_ = 0;
    void (*body_)(void *) = nullptr;
    void *of_ = nullptr;
    bool begun_ = true; // the host's own is running
};

// The stacks of the threads of a block, each with a page below that no access survives.
class Stacks {
public:
    static constexpr size_t SIZE = 1 << 20; // CUDA gives a thread 512 KB of local memory at most

    ~Stacks();
    // Room for `count` stacks; false where the system gives none.
    bool reserve(int count);
    int count() const { return count_; }
    char *bottom(int i) const { return memory_ + i * SIZE + page_; }
    // They end at different places in their pages: else all use the same few lines of the cache.
    size_t size(int i) const { return SIZE - page_ - (i % 61) * 192; }

private:
    char *memory_ = nullptr;
    size_t page_ = 0;
    int count_ = 0;
};
