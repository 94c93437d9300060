// Checked runs, for a process of its own (runner.cpp) with the arguments
//
//     RUNTIME OBJECT ARRAYS REPORTS SEED CHECKS
//
// ARRAYS is a file with the contents of all arrays, changed in place. The input has lines of words:
//     array OFFSET ELEMENTS ITEMSIZE GIVEN         numbered from 0, as they come
//     launch SYMBOL GX GY GZ BX BY BZ SHARED       followed by its arguments:
//     buffer ARRAY NAME
//     number BYTES-IN-HEXADECIMAL
//     run
#include "block.h"
#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <list>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct Array {
    unsigned char *data;
    long long elements;
    int itemsize, given;
    Cell *cells;
};

static ti_launch launch;
static std::vector<Array> arrays;
static std::list<std::string> names;
static std::list<ti_buffer> buffers;
static std::list<std::vector<unsigned char>> numbers;
static std::vector<void *> arguments;

[[noreturn]] static void give_up(const char *what) {
    fprintf(stderr, "%s\n", what);
    _exit(2);
}

// A report of where it happened, and then the end that the signal means.
static void on_signal(int number) {
    signal(number, SIG_DFL);
    Report report("crash");
    Block *block = current_block();
    if (block && block->is_running()) {
        report = block->report("crash", block->checker().last_line());
    }
    report.add("signal", number).send(launch);
    raise(number);
}

static void watch_signals() {
    static char stack[1 << 16];
    const stack_t other = {stack, 0, sizeof(stack)};
    sigaltstack(&other, nullptr);
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
        sigaction(number, &action, nullptr);
}

static unsigned char *mapped(const char *path) {
    const int file = open(path, O_RDWR);
    struct stat status;
    if (file < 0 || fstat(file, &status)) give_up("the arrays cannot be opened");
    if (!status.st_size) return nullptr;
    void *memory = mmap(nullptr, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) give_up("the arrays cannot be mapped");
    return static_cast<unsigned char *>(memory);
}

// The next word of the input; "" at its end.
static std::string word() {
    std::string found;
    int c = getchar();
    while (isspace(c)) c = getchar();
    for (; c != EOF && !isspace(c); c = getchar()) found += char(c);
    return found;
}

static long long whole() { return atoll(word().c_str()); }

static void read_array(unsigned char *memory) {
    Array array;
    array.data = memory + whole();
    array.elements = whole();
    array.itemsize = int(whole());
    array.given = int(whole());
    array.cells = new_cells(array.elements + 1);
    arrays.push_back(array);
}

static void read_buffer() {
    const Array &a = arrays.at(whole());
    names.push_back(word());
    const char *name = names.back().c_str();
    buffers.push_back({a.data, a.elements, a.itemsize, 0, a.given, name, a.cells, 1});
    arguments.push_back(&buffers.back());
}

static void read_number() {
    const std::string digits = word();
    numbers.emplace_back(16);
    for (size_t i = 0; 2 * i < digits.size(); i++)
        numbers.back()[i] = strtol(digits.substr(2 * i, 2).c_str(), nullptr, 16);
    arguments.push_back(numbers.back().data());
}

static void read_launch(void *object) {
    void *symbol = dlsym(object, word().c_str());
    if (!symbol) give_up("there is no such kernel");
    launch.kernel = reinterpret_cast<void (*)(void *const *)>(symbol);
    for (unsigned *size : {launch.grid, launch.block})
        for (int i = 0; i < 3; i++) size[i] = unsigned(whole());
    launch.shared_bytes = int(whole());
    arguments.clear();
}

extern "C" int ti_emulator_main(int count, char **words) {
    if (count != 7) give_up("usage: runner RUNTIME OBJECT ARRAYS REPORTS SEED CHECKS < launches");
    words++;
    launch.report_file = open(words[3], O_WRONLY | O_APPEND);
    launch.seed = strtoull(words[4], nullptr, 10);
    launch.checks = atoi(words[5]);
    launch.workers = 1;
    watch_signals();
    void *object = dlopen(words[1], RTLD_NOW);
    if (!object) give_up(dlerror());
    unsigned char *memory = mapped(words[2]);
    int number = 0;
    for (std::string what = word(); !what.empty(); what = word()) {
        if (what == "array") read_array(memory);
        if (what == "launch") read_launch(object);
        if (what == "buffer") read_buffer();
        if (what == "number") read_number();
        if (what != "run") continue;
        Report("launch").add("number", number++).send(launch);
        launch.arguments = arguments.data();
        if (ti_emulator_launch(&launch, 0, 1e18) < 0) return 1;
    }
    Report("end").send(launch);
    return 0;
}
