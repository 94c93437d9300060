/* linear_prepare, generated for c -threads=2 -vector_bits=256

   reads W: f32[42]
   writes W_global: f32[56]
*/

/* linear, generated for c -threads=2 -vector_bits=256

   reads A: f32[35]
   reads B: f32[6]
   reads W_global: f32[56]
   writes C: f32[30]
*/

typedef __INT64_TYPE__ i64;

/* A worker that wakes on the caller's processor moves to another one, if there are enough. */
#if defined(_OPENMP) && defined(__linux__)
extern int omp_get_thread_num(void);
extern int sched_getcpu(void);

extern int omp_get_num_threads(void);
extern int getpid(void);
extern int sched_getaffinity(int, __SIZE_TYPE__, void *);
extern int sched_setaffinity(int, __SIZE_TYPE__, const void *);

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

static int threads_home(void) { return sched_getcpu(); }

static inline void threads_spread(int home) {
    if (omp_get_thread_num() && sched_getcpu() == home) threads_move(home);
}
#else
static inline int threads_home(void) { return 0; }
static inline void threads_spread(int home) { (void)home; }
#endif

static void linear_prepare_ax1_0(
    float *restrict W_global,
    const float *restrict W,
    const i64 ax1_0) {
    if (ax1_0 < 1) {
        for (i64 ax0 = 0; ax0 < 7; ax0++) {
            for (i64 ax1_1 = 0; ax1_1 < 4; ax1_1++) {
                W_global[ax0 * 4 + ax1_1] = W[ax0 * 6 + ax1_1];
            }
        }
    } else {
        for (i64 ax0 = 0; ax0 < 7; ax0++) {
            for (i64 ax1_1 = 0; ax1_1 < 2; ax1_1++) {
                W_global[ax0 * 4 + ax1_1 + 28] = W[ax0 * 6 + ax1_1 + 4];
            }
            for (i64 ax1_1 = 0; ax1_1 < 2; ax1_1++) {
                W_global[ax0 * 4 + ax1_1 + 30] = 0.0f;
            }
        }
    }
}

int linear_prepare(const float *restrict W, float *restrict W_global) {
    {
        const int home = threads_home();
        #pragma omp parallel num_threads(2)
        {
            threads_spread(home);
            #pragma omp for schedule(static) nowait
            for (i64 ax1_0 = 0; ax1_0 < 2; ax1_0++)
                linear_prepare_ax1_0(W_global, W, ax1_0);
        }
    }
    return 0;
}

int linear(
    const float *restrict A,
    const float *restrict B,
    const float *restrict W_global,
    float *restrict C) {
    float T[30] __attribute__((aligned(64)));
    for (i64 i = 0; i < 5; i++) {
        for (i64 j = 0; j < 6; j++) {
            T[i * 6 + j] = 0.0f;
            for (i64 r = 0; r < 7; r++) {
                T[i * 6 + j] += A[i * 7 + r] * W_global[(j >> 2) * 28 + r * 4 + (j & 3)];
            }
        }
    }
    for (i64 i_C = 0; i_C < 5; i_C++) {
        for (i64 j_C = 0; j_C < 6; j_C++) {
            C[i_C * 6 + j_C] = T[i_C * 6 + j_C] + B[j_C];
        }
    }
    return 0;
}

/* This kernel keeps no memory between calls. */
void linear_release(void) {}
