"""Threads: keeping those of a parallel loop on processors of their own, and across a fork.

A worker thread that slept since the last parallel loop often wakes on the processor of the thread
that woke it. Both then take turns there, a time slice of milliseconds each, until the balancing of
the operating system notices: a kernel of 2.5 ms took 5 ms on two idle processors. OMP_PROC_BIND
would prevent it, but pins the calling thread of the user's program, and all threads that it makes
later, to one processor. So a worker that finds itself on the caller's processor moves away, and
stays away by its affinity mask; nothing else is changed.

A child of fork() has the thread that called it and no other. libgomp does not notice: the next
parallel loop of that thread waits for ever for the ones that it had. So they end before the fork,
by a function of OpenMP 5 that is there to give threads back, and start with the next parallel loop
of either process. libomp prepares for a fork itself, and must not be asked to while it does.
"""

from __future__ import annotations

from string import Template

from backends.c.support import Support

_WHERE = "defined(_OPENMP) && defined(__linux__)"

_FUNCTIONS = Template("""\
extern int omp_get_num_threads(void);
extern int getpid(void);
extern int sched_getaffinity(int, __SIZE_TYPE__, void *);
extern int sched_setaffinity(int, __SIZE_TYPE__, const void *);

__attribute__((noinline, cold)) ${static}void threads_move(int home) {
    enum { WORD = 8 * sizeof(long), WORDS = 1024 / WORD };
    unsigned long set[WORDS] = {0};
    int processors = 0;
    if (home < 0 || home >= 1024 || sched_getaffinity(getpid(), sizeof set, set) < 0) return;
    for (int i = 0; i < WORDS; i++) processors += __builtin_popcountl(set[i]);
    if (processors < omp_get_num_threads()) return;
    set[home / WORD] &= ~(1UL << home % WORD);
    sched_setaffinity(0, sizeof set, set);
}

/* The threads of libgomp end before a fork, since a child would wait for them for ever. */
extern int pthread_atfork(void (*)(void), void (*)(void), void (*)(void));
extern int omp_pause_resource_all(int) __attribute__((weak));
extern int kmp_get_library(void) __attribute__((weak)); /* libomp has it, and needs no help */

static void threads_end(void) {
    if (omp_pause_resource_all && !kmp_get_library) omp_pause_resource_all(1);
}

__attribute__((constructor)) static void threads_begin(void) {
    pthread_atfork(threads_end, 0, 0);
}
""")

_DECLARATIONS = Template("${static}void threads_move(int home);\n")

THREADS = Support("threads", "", _DECLARATIONS, _FUNCTIONS, _WHERE)

THREADS_TEXT = f"""\
/* A worker that wakes on the caller's processor moves to another one, if there are enough. */
#if {_WHERE}
extern int omp_get_thread_num(void);
extern int sched_getcpu(void);

{THREADS.text}
static int threads_home(void) {{ return sched_getcpu(); }}

static inline void threads_spread(int home) {{
    if (omp_get_thread_num() && sched_getcpu() == home) threads_move(home);
}}
#else
static inline int threads_home(void) {{ return 0; }}
static inline void threads_spread(int home) {{ (void)home; }}
#endif
"""
