// The process of checked runs: nothing that a kernel does can harm the one that asked for it.
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **words) {
    void *runtime = count > 1 ? dlopen(words[1], RTLD_NOW | RTLD_GLOBAL) : nullptr;
    void *run = runtime ? dlsym(runtime, "ti_emulator_main") : nullptr;
    if (run) return reinterpret_cast<int (*)(int, char **)>(run)(count, words);
    fprintf(stderr, "%s\n", count > 1 ? dlerror() : "name the runtime");
    return 2;
}
