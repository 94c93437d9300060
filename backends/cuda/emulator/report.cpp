#include "report.h"
#include <cstdio>
#include <cstring>
#include <pthread.h>
#include <unistd.h>

Report::Report(const char *kind) : text_("{\"kind\": \"") {
    text_ += kind;
    text_ += '"';
}

Report &Report::raw(const char *key, const std::string &json) {
    text_ += ", \"";
    text_ += key;
    text_ += "\": ";
    text_ += json;
    return *this;
}

Report &Report::add(const char *key, long long value) {
    char text[24];
    snprintf(text, sizeof(text), "%lld", value);
    return raw(key, text);
}

Report &Report::add(const char *key, const char *value) {
    std::string text = "\"";
    text += value;
    text += '"';
    return raw(key, text);
}

Report &Report::add(const char *key, const uint3 &v) {
    char text[48];
    snprintf(text, sizeof(text), "[%u, %u, %u]", v.x, v.y, v.z);
    return raw(key, text);
}

static void write_line(const ti_launch &launch, const std::string &line) {
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

void Report::send(const ti_launch &launch) const {
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one);
    write_line(launch, text_ + "}\n");
    pthread_mutex_unlock(&one);
}
