"""Threads: keeping the threads of a parallel loop on processors of their own.

A worker thread that slept since the last parallel loop often wakes on the processor of the thread
that woke it. Both then take turns there, a time slice of milliseconds each, until the balancing of
the operating system notices: a kernel of 2.5 ms took 5 ms on two idle processors. OMP_PROC_BIND
would prevent it, but pins the calling thread of the user's program, and all threads that it makes
later, to one processor. So a worker that finds itself on the caller's processor moves away, and
stays away by its affinity mask; nothing else is changed.
"""

from __future__ import annotations

THREADS_TEXT = """\
/* A worker that wakes on the caller's processor moves to another one, if there are enough. */
#if defined(_OPENMP) && defined(__linux__)
extern int omp_get_thread_num(void);
extern int omp_get_num_threads(void);
extern int getpid(void);
extern int sched_getcpu(void);
extern int sched_getaffinity(int, __SIZE_TYPE__, void *);
extern int sched_setaffinity(int, __SIZE_TYPE__, const void *);

static int threads_home(void) { return sched_getcpu(); }

__attribute__((noinline, cold)) static void threads_move(int home) {
    enum { WORD = 8 * sizeof(long), WORDS = 1024 / WORD };
    unsigned long set[WORDS] = {0};
    int processors = 0;
    if (home < 0 || home >= 1024 || sched_getaffinity(getpid(), sizeof set, set) < 0) return;
    for (int i = 0; i < WORDS; i++) processors += __builtin_popcountl(set[i]);
    if (processors < omp_get_num_threads()) return;
    set[home / WORD] &= ~(1UL << home % WORD);
    sched_setaffinity(0, sizeof set, set);
}

static inline void threads_spread(int home) {
    if (omp_get_thread_num() && sched_getcpu() == home) threads_move(home);
}
#else
static inline int threads_home(void) { return 0; }
static inline void threads_spread(int home) { (void)home; }
#endif
"""
