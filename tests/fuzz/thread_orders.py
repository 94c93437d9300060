"""Threads of OpenMP one after the other, in other orders for each region: what waits for nothing
is found, which threads that run at once meet seldom.

Each thread is a context of its own on the thread of the caller. It runs until it waits for the
others, or ends; then comes another one. Who reads what another thread makes in the same turn finds
it missing in one of the orders: new memory is full of NaN. `environment` has the variables for a
process whose kernels run so, in place of libgomp. With THREAD_ORDERS=lost nobody waits.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

TEXT = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { MOST = 64, STACK = 4 << 20, USED = 64 << 10 };

static __thread ucontext_t home, threads[MOST];
static __thread char *stacks[MOST];
static __thread int now = -1, count = 1, done[MOST];
static __thread unsigned drawn = 1;
static __thread void (*body)(void *);
static __thread void *given;

int omp_get_thread_num(void) { return now < 0 ? 0 : now; }
int omp_get_num_threads(void) { return now < 0 ? 1 : count; }
int omp_get_max_threads(void) { return 3; }
int omp_in_parallel(void) { return now >= 0; }

static void leave(void) {
    int mine = now;
    swapcontext(&threads[mine], &home);
}

static void begin(void) {
    body(given);
    done[now] = 1;
    leave();
}

void GOMP_barrier(void) {
    const char *how = getenv("THREAD_ORDERS");
    if (now >= 0 && !(how && !strcmp(how, "lost"))) leave();
}

void GOMP_parallel(void (*fn)(void *), void *data, unsigned wanted, unsigned flags) {
    (void)flags;
    if (now >= 0) { /* in a region already: a team of one */
        int mine = now, all = count;
        now = -1;
        fn(data);
        now = mine, count = all;
        return;
    }
    body = fn, given = data;
    count = wanted ? wanted : omp_get_max_threads();
    if (count > MOST) count = MOST;
    for (int i = 0; i < count; i++) {
        done[i] = 0;
        if (!stacks[i]) stacks[i] = malloc(STACK);
        memset(stacks[i] + STACK - USED, 0xff, USED);
        getcontext(&threads[i]);
        threads[i].uc_stack.ss_sp = stacks[i];
        threads[i].uc_stack.ss_size = STACK;
        makecontext(&threads[i], begin, 0);
    }
    for (int left = count; left;) {
        int order[MOST];
        for (int i = 0; i < count; i++) { /* one of all orders */
            int at = rand_r(&drawn) % (i + 1);
            order[i] = order[at];
            order[at] = i;
        }
        for (int i = 0; i < count; i++) {
            if (done[order[i]]) continue;
            now = order[i];
            swapcontext(&home, &threads[now]);
            left -= done[order[i]];
        }
        now = -1;
    }
    count = 1;
}

int posix_memalign(void **memory, size_t aligned, size_t size) {
    *memory = aligned_alloc(aligned, (size + aligned - 1) / aligned * aligned);
    if (*memory) memset(*memory, 0xff, size);
    return *memory ? 0 : 12;
}
"""


def environment(folder: Path) -> dict[str, str]:
    """Variables for a process whose kernels' threads take turns; the library lies in `folder`."""
    library = folder / "thread_orders.so"
    command = ["gcc", "-O1", "-Wall", "-Werror", "-fPIC", "-shared", "-o", str(library)]
    subprocess.run([*command, "-x", "c", "-"], input=TEXT, text=True, check=True)
    return {"LD_PRELOAD": str(library)}
