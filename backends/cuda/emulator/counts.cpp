#include "counts.h"
#include "block.h"
#include "report.h"
#include <cstring>

static constexpr size_t MOST_NOTED = 1 << 14;
static constexpr int SECTOR = 32, BANKS = 32, BANK_BYTES = 4;

// Different numbers, as many as a warp can need.
class Different {
public:
    void add(unsigned long number) {
        for (int i = 0; i < count_; i++)
            if (numbers_[i] == number) return;
        numbers_[count_++] = number;
    }
    int count() const { return count_; }

private:
    unsigned long numbers_[4 * WARP];
    int count_ = 0;
};

bool Counts::touch(int thread, const ti_buffer &buffer, unsigned long address, int bytes, bool write,
                   int line) {
    noted_[thread].push_back({site(buffer, bytes, write, line), steps_[thread], address});
    return noted_[thread].size() >= MOST_NOTED;
}

int Counts::site(const ti_buffer &buffer, int bytes, bool write, int line) {
    if (size_t(line) >= of_line_.size()) of_line_.resize(line + 1);
    for (const int number : of_line_[line]) {
        const Site &s = sites_[number];
        if (s.buffer == buffer.name && s.write == write && s.bytes == bytes) return number;
    }
    Site added;
    added.line = line;
    added.buffer = buffer.name;
    added.shared = buffer.shared;
    added.write = write;
    added.bytes = bytes;
    of_line_[line].push_back(int(sites_.size()));
    sites_.push_back(added);
    return int(sites_.size()) - 1;
}

void Counts::barrier(int line, const char *what) {
    for (Barrier &b : barriers_)
        if (b.line == line && !strcmp(b.what, what)) {
            b.times++;
            return;
        }
    barriers_.push_back({line, what, 1});
}

// Names a step by that around it, its number and the line of its loop.
static unsigned long inner(unsigned long step, long long number, int line) {
    constexpr unsigned long ODD = 0x9e3779b97f4a7c15; // of Knuth's multiplicative hashing
    const unsigned long mixed = (step ^ line) * ODD + number;
    return (mixed ^ mixed >> 32) * ODD;
}

unsigned long Counts::begin_step(int thread, long long number, int line) {
    const unsigned long before = steps_[thread];
    steps_[thread] = inner(before, number, line);
    return before;
}

// The n-th access at a site by one lane, in one step of the loops around, and that by another are one instruction.
Counts::Instruction &Counts::instruction(Site &site, Next &next, unsigned long step) {
    next.times = step == next.step ? next.times + 1 : 0;
    next.step = step;
    const unsigned long number = inner(step, next.times, 0);
    if (next.place >= site.open.size() || site.open[next.place].step != number) {
        const auto found = site.places.emplace(number, site.open.size());
        if (found.second) site.open.push_back({number});
        next.place = found.first->second;
    }
    return site.open[next.place++];
}

void Counts::flush(int warp, unsigned lanes) {
    std::vector<Next> next(sites_.size());
    for (int lane = 0; lane < WARP; lane++) {
        std::vector<Noted> &noted = noted_[warp * WARP + lane];
        if (noted.empty() || !(lanes >> lane & 1)) continue;
        for (Next &each : next) each = {0, ~0ul, 0};
        for (const Noted &n : noted) {
            Instruction &open = instruction(sites_[n.site], next[n.site], n.step);
            open.lanes |= 1u << lane;
            open.addresses[lane] = n.address;
        }
        noted.clear();
    }
    for (Site &site : sites_) {
        for (const Instruction &instruction : site.open) finish(site, instruction);
        site.open.clear();
        site.places.clear();
    }
}

void Counts::flush() {
    for (int warp = 0; warp < 1024 / WARP; warp++) flush(warp);
}

void Counts::finish(Site &site, const Instruction &instruction) {
    site.instructions++;
    if (!site.shared) {
        Different sectors, places;
        for (int lane = 0; lane < WARP; lane++) {
            if (!(instruction.lanes >> lane & 1)) continue;
            const unsigned long first = instruction.addresses[lane];
            places.add(first);
            for (unsigned long at = first / SECTOR; at <= (first + site.bytes - 1) / SECTOR; at++)
                sectors.add(at);
        }
        site.transactions += sectors.count();
        site.least += (places.count() * site.bytes + SECTOR - 1) / SECTOR;
        return;
    }
    // All lanes are served at once, or two halves or four quarters of them, by 4 bytes a lane.
    const int parts = site.bytes > BANK_BYTES ? site.bytes / BANK_BYTES : 1, each = WARP / parts;
    for (int part = 0; part < parts; part++) {
        Different words[BANKS];
        int most = 0;
        for (int lane = part * each; lane < (part + 1) * each; lane++) {
            if (!(instruction.lanes >> lane & 1)) continue;
            for (int b = 0; b < site.bytes; b += BANK_BYTES) {
                const unsigned long word = (instruction.addresses[lane] + b) / BANK_BYTES;
                Different &bank = words[word % BANKS];
                bank.add(word);
                if (bank.count() > most) most = bank.count();
            }
        }
        site.transactions += most;
        site.least += most > 0;
    }
}

void Counts::send(const ti_launch &launch) const {
    for (const auto &of_line : of_line_)
        for (const int number : of_line) {
            const Site &site = sites_[number];
            Report report("count");
            report.add("line", site.line).add("buffer", site.buffer).add("bytes", site.bytes);
            report.add("what", site.write ? "store" : "load");
            report.add("space", site.shared ? "shared" : "global");
            report.add("instructions", site.instructions).add("least", site.least);
            report.add("transactions", site.transactions).send(launch);
        }
    for (const Barrier &barrier : barriers_)
        Report("count").add("line", barrier.line).add("what", barrier.what)
            .add("instructions", barrier.times).send(launch);
}

void Counts::clear() {
    sites_.clear();
    of_line_.clear();
    barriers_.clear();
    for (auto &noted : noted_) noted.clear();
    for (unsigned long &step : steps_) step = 0;
}
