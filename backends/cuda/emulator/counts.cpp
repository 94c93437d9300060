#include "counts.h"
#include "block.h"
#include "report.h"
#include <algorithm>

static constexpr size_t MOST_NOTED = 1 << 14;
static constexpr int SECTOR = 32, BANKS = 32, BANK_BYTES = 4;

bool Counts::touch(int thread, const ti_buffer &buffer, unsigned long address, int bytes, bool write,
                   int line) {
    const Site site = {line, buffer.name, bool(buffer.shared), write, bytes};
    const auto [entry, added] = numbers_.emplace(site, int(sites_.size()));
    if (added) {
        sites_.push_back(site);
        counts_.emplace_back();
    }
    lanes_[thread].push_back({entry->second, address});
    return lanes_[thread].size() >= MOST_NOTED;
}

void Counts::barrier(int line, const char *what) { barriers_[{line, what}]++; }

// Parts of a warp whose accesses to shared memory are done at once: all lanes, halves or quarters.
static std::pair<int, int> wavefronts(const std::vector<std::pair<int, unsigned long>> &lanes, int bytes) {
    const int parts = std::max(1, bytes / BANK_BYTES), each = WARP / parts;
    int needed = 0, least = 0;
    for (int part = 0; part < parts; part++) {
        std::vector<unsigned long> words;
        for (const auto &[lane, address] : lanes)
            for (int b = 0; lane / each == part && b < bytes; b += BANK_BYTES)
                words.push_back((address + b) / BANK_BYTES);
        std::sort(words.begin(), words.end());
        words.erase(std::unique(words.begin(), words.end()), words.end());
        int in_bank[BANKS] = {}, most = 0;
        for (const unsigned long word : words) most = std::max(most, ++in_bank[word % BANKS]);
        needed += most;
        least += most > 0;
    }
    return {needed, least};
}

static std::pair<int, int> sectors(const std::vector<std::pair<int, unsigned long>> &lanes, int bytes) {
    std::vector<unsigned long> touched, places;
    for (const auto &lane : lanes) {
        places.push_back(lane.second);
        for (unsigned long s = lane.second / SECTOR; s <= (lane.second + bytes - 1) / SECTOR; s++)
            touched.push_back(s);
    }
    for (auto *list : {&touched, &places}) {
        std::sort(list->begin(), list->end());
        list->erase(std::unique(list->begin(), list->end()), list->end());
    }
    return {int(touched.size()), int(places.size() * bytes + SECTOR - 1) / SECTOR};
}

// The n-th access at a site by one lane and that by another are one instruction.
void Counts::flush(int warp, unsigned lanes) {
    std::map<std::pair<int, int>, std::vector<std::pair<int, unsigned long>>> instructions;
    for (int lane = 0; lane < WARP; lane++) {
        if (!(lanes >> lane & 1)) continue;
        std::unordered_map<int, int> times;
        std::vector<Noted> &noted = lanes_[warp * WARP + lane];
        for (const Noted &n : noted) instructions[{n.site, times[n.site]++}].emplace_back(lane, n.address);
        noted.clear();
    }
    for (const auto &[key, accesses] : instructions) {
        const Site &site = sites_[key.first];
        Count &count = counts_[key.first];
        const auto [needed, least] = (site.shared ? wavefronts : sectors)(accesses, site.bytes);
        count.instructions++;
        count.transactions += needed;
        count.least += least;
    }
}

void Counts::flush() {
    for (int warp = 0; warp * WARP < int(lanes_.size()); warp++) flush(warp);
}

void Counts::send(const ti_launch &launch) const {
    for (const auto &[site, number] : numbers_) {
        const Count &count = counts_[number];
        Report report("count");
        report.add("line", site.line).add("buffer", site.buffer.c_str());
        report.add("what", site.write ? "store" : "load").add("space", site.shared ? "shared" : "global");
        report.add("bytes", site.bytes).add("instructions", count.instructions);
        report.add("transactions", count.transactions).add("least", count.least).send(launch);
    }
    for (const auto &[place, times] : barriers_)
        Report("count").add("line", place.first).add("what", place.second.c_str())
            .add("instructions", times).send(launch);
}

void Counts::clear() {
    numbers_.clear();
    sites_.clear();
    counts_.clear();
    barriers_.clear();
    for (auto &lane : lanes_) lane.clear();
}
