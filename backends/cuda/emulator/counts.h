// Counts, by lines of the text, of what the memory of a GPU does for the accesses of warps.
#pragma once
#include "launch.h"
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
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
    struct Site {
        int line;
        std::string buffer;
        bool shared, write;
        int bytes;
        bool operator<(const Site &other) const {
            return std::tie(line, buffer, shared, write, bytes) <
                   std::tie(other.line, other.buffer, other.shared, other.write, other.bytes);
        }
    };
    struct Count {
        long long instructions = 0, transactions = 0, least = 0;
    };
    struct Noted {
        int site;
        unsigned long address;
    };

    std::vector<Site> sites_;
    std::map<Site, int> numbers_;
    std::vector<Count> counts_;
    std::map<std::pair<int, std::string>, long long> barriers_;
    std::vector<std::vector<Noted>> lanes_ = std::vector<std::vector<Noted>>(1024);
};
