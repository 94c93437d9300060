/* f, generated for c -threads=2 -vector_bits=512

   reads A: f32[10]
   writes B: f32[10]
   writes C: f32[10]
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

static void f_i(float *restrict T, const float *restrict A, const i64 i) {
    T[i] = A[i] + 1.0f;
}

static void f_once(float *restrict B, const float *restrict T) {
    B[0] = T[9];
    for (i64 j = 0; j < 9; j++) {
        B[j + 1] = T[8 - j] * 2.0f;
    }
}

static void f_k(
    float *restrict U,
    const float *restrict B,
    const float *restrict T,
    const i64 k) {
    U[k] = B[9 - k] + T[k];
}

static void f_l(
    float *restrict C,
    const float *restrict U,
    const float *restrict A,
    const i64 l) {
    C[l] = U[9 - l] - A[l];
}

int f(const float *restrict A, float *restrict B, float *restrict C) {
    float U[10] __attribute__((aligned(64)));
    float T[10] __attribute__((aligned(64)));
    {
        const int home = threads_home();
        #pragma omp parallel num_threads(2)
        {
            threads_spread(home);
            #pragma omp for schedule(static) nowait
            for (i64 i = 0; i < 10; i++)
                f_i(T, A, i);
            #pragma omp barrier
            #pragma omp master
            {
                f_once(B, T);
            }
            #pragma omp barrier
            #pragma omp for schedule(static) nowait
            for (i64 k = 0; k < 10; k++)
                f_k(U, B, T, k);
            #pragma omp barrier
            #pragma omp for schedule(static) nowait
            for (i64 l = 0; l < 10; l++)
                f_l(C, U, A, l);
        }
    }
    C[0] = 5.0f;
    return 0;
}

/* This kernel keeps no memory between calls. */
void f_release(void) {}
