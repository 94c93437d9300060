#include "report.h"
#include <cstring>
#include <mutex>
#include <unistd.h>

Report &Report::raw(const char *key, const std::string &json) {
    text_ += std::string(", \"") + key + "\": " + json;
    return *this;
}

Report &Report::add(const char *key, const uint3 &v) {
    return raw(key, "[" + std::to_string(v.x) + ", " + std::to_string(v.y) + ", " +
                        std::to_string(v.z) + "]");
}

void Report::send(const ti_launch &launch) const {
    static std::mutex one;
    const std::lock_guard<std::mutex> lock(one);
    const std::string line = text_ + "}\n";
    if (launch.report_file >= 0) {
        for (size_t done = 0; done < line.size();) {
            const ssize_t n = write(launch.report_file, line.data() + done, line.size() - done);
            if (n < 0) return;
            done += n;
        }
        return;
    }
    const size_t used = strlen(launch.report);
    if (used + line.size() < size_t(launch.report_size))
        memcpy(launch.report + used, line.c_str(), line.size() + 1);
}
