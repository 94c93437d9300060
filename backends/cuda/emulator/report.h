// Reports: one line of JSON each. Python makes the sentences (report.py).
#pragma once
#include "launch.h"
#include <string>

class Report {
public:
    explicit Report(const char *kind);
    Report &add(const char *key, long long value);
    Report &add(const char *key, const char *value);
    Report &add(const char *key, const uint3 &value);
    Report &raw(const char *key, const std::string &json);
    // Writes it where the launch wants it, whatever happens next.
    void send(const ti_launch &launch) const;

private:
    std::string text_;
};
