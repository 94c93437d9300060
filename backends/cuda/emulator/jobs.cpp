// Checked runs, for a process of its own (runner.cpp) with the arguments
//
//     RUNTIME OBJECT ARRAYS REPORTS SEED CHECKS
//
// ARRAYS is a file with the contents of all arrays, changed in place. The input has lines of words:
//     array OFFSET ELEMENTS ITEMSIZE WRITTEN       numbered from 0, as they come
//     launch SYMBOL GX GY GZ BX BY BZ SHARED       followed by its arguments:
//     buffer ARRAY NAME
//     number BYTES-IN-HEXADECIMAL
//     run
#include "block.h"
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
    int itemsize;
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

static void read_array(unsigned char *memory) {
    long long offset, elements;
    int itemsize, written;
    if (scanf("%lld %lld %d %d", &offset, &elements, &itemsize, &written) != 4) give_up("array");
    Array array = {memory + offset, elements, itemsize, new Cell[elements + 1]};
    for (long long i = 0; written && i < elements; i++) array.cells[i].written = FIRST_TIME;
    arrays.push_back(array);
}

static void read_buffer() {
    int array;
    char name[256];
    if (scanf("%d %255s", &array, name) != 2) give_up("buffer");
    names.emplace_back(name);
    const Array &a = arrays.at(array);
    buffers.push_back({a.data, a.elements, a.itemsize, 0, names.back().c_str(), a.cells, a.itemsize});
    arguments.push_back(&buffers.back());
}

static void read_number() {
    char digits[64];
    if (scanf("%63s", digits) != 1) give_up("number");
    numbers.emplace_back(16);
    for (size_t i = 0; digits[2 * i]; i++) sscanf(digits + 2 * i, "%2hhx", &numbers.back()[i]);
    arguments.push_back(numbers.back().data());
}

static void read_launch(void *object) {
    char symbol[512];
    if (scanf("%511s", symbol) != 1) give_up("launch");
    for (unsigned *size : {launch.grid, launch.block})
        if (scanf("%u %u %u", size, size + 1, size + 2) != 3) give_up("sizes");
    if (scanf("%d", &launch.shared_bytes) != 1) give_up("shared");
    launch.kernel = reinterpret_cast<void (*)(void *const *)>(dlsym(object, symbol));
    if (!launch.kernel) give_up("there is no such kernel");
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
    char word[16];
    int number = 0;
    while (scanf("%15s", word) == 1) {
        const std::string what = word;
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
