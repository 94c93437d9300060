// Counts, by lines of the text, of what the memory of a GPU does for the accesses of warps.
#pragma once
#include "launch.h"
#include <unordered_map>
#include <vector>

class Counts {
public:
    // Notes an access; true where a lane has noted so many that the others should catch up.
    bool touch(int thread, const ti_buffer &buffer, unsigned long address, int bytes, bool write, int line);
    // A thread is in a step of a loop; returns what it was in, to which it goes back.
    unsigned long begin_step(int thread, long long number, int line);
    void end_step(int thread, unsigned long before) { steps_[thread] = before; }
    void barrier(int line, const char *what);
    // What lanes of a warp (bits) noted since the last time makes instructions.
    void flush(int warp, unsigned lanes = ~0u);
    void flush();
    void send(const ti_launch &launch) const;
    void clear();

private:
    // One instruction of a warp: the lanes that take part, and their addresses.
    struct Instruction {
        unsigned long step;
        unsigned lanes = 0;
        unsigned long addresses[32];
    };
    struct Site {
        int line;
        const char *buffer;
        bool shared, write;
        int bytes;
        long long instructions = 0, transactions = 0, least = 0;
        std::vector<Instruction> open; // of the warp that is flushed
        std::unordered_map<unsigned long, size_t> places; // of these, by their steps
    };
    struct Noted {
        int site;
        unsigned long step;
        unsigned long address;
    };
    // Where one lane is, at a site.
    struct Next {
        size_t place = 0; // of the next instruction, if no lane leaves one out
        unsigned long step = 0;
        int times = 0; // in this step
    };
    struct Barrier {
        int line;
        const char *what;
        long long times;
    };

    static Instruction &instruction(Site &site, Next &next, unsigned long step);
    int site(const ti_buffer &buffer, int bytes, bool write, int line);
    static void finish(Site &site, const Instruction &instruction);

    std::vector<Site> sites_;
    std::vector<std::vector<int>> of_line_; // the sites of each line
    std::vector<Barrier> barriers_;
    std::vector<Noted> noted_[1024]; // by thread
    unsigned long steps_[1024] = {};
};
