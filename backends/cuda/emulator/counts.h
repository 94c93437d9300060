// Counts, by lines of the text, of what the memory of a GPU does for the accesses of warps.
#pragma once
#include "launch.h"
#include <vector>

class Counts {
public:
    // Notes an access; true where a lane has noted so many that the others should catch up.
    bool touch(int thread, const ti_buffer &buffer, unsigned long address, int bytes, bool write, int line);
    void barrier(int line, const char *what);
    // What lanes of a warp (bits) noted since the last time makes instructions.
    void flush(int warp, unsigned lanes = ~0u);
    void flush();
    void send(const ti_launch &launch) const;
    void clear();

private:
    // One instruction of a warp: the lanes that take part, and their addresses.
    struct Instruction {
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
    };
    struct Noted {
        int site;
        unsigned long address;
    };
    struct Barrier {
        int line;
        const char *what;
        long long times;
    };

    int site(const ti_buffer &buffer, int bytes, bool write, int line);
    static void finish(Site &site, const Instruction &instruction);

    std::vector<Site> sites_;
    std::vector<std::vector<int>> of_line_; // the sites of each line
    std::vector<Barrier> barriers_;
    std::vector<Noted> noted_[1024]; // by thread
};
