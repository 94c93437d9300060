/* matmul, generated for c -threads=2 -vector_bits=512

   reads A: f32[64]
   reads B: f32[256]
   writes C: f32[256]
*/

typedef __INT64_TYPE__ i64;
typedef float f32x16 __attribute__((vector_size(64)));
typedef float f32x16_u __attribute__((vector_size(64), aligned(4), may_alias));
typedef __INT32_TYPE__ i32;
typedef i32 i32x16 __attribute__((vector_size(64)));

#define LOAD(T, p) ((T)*(const T##_u *)(p))
#define STORE(T, p, v) (*(T##_u *)(p) = (v))

#if defined(__x86_64__) && defined(__GNUC__) && defined(__AVX512F__)
#define KEEP512(v) __asm__("" : "+v"(v)) /* keeps gcc from loading v again at each of its few uses */
#else
#define KEEP512(v) ((void)0)
#endif

static inline float maxc_f32(float a, float b) { return a > b ? a : b; }

static inline f32x16 maxc_f32x16(f32x16 a, f32x16 b) {
#if defined(__AVX512F__) && !defined(__clang__)
    return __builtin_ia32_maxps512_mask(a, b, a, -1, 4);
#else
#ifdef __clang__
    return (f32x16)(((i32x16)(a > b) & (i32x16)a) | (~(i32x16)(a > b) & (i32x16)b));
#else
    f32x16 r = {0};
    for (int i = 0; i < 16; i++) r[i] = maxc_f32(a[i], b[i]);
    return r;
#endif
#endif
}

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

static void matmul_i(
    const float *restrict A,
    const float *restrict B,
    float *restrict C,
    const i64 i) {
    f32x16 acc_0, acc_1, acc_2, acc_3;
    acc_0 = (f32x16){0};
    acc_1 = (f32x16){0};
    acc_2 = (f32x16){0};
    acc_3 = (f32x16){0};
    for (i64 k = 0; k < 16; k++) {
        f32x16 B_v = LOAD(f32x16, &B[k * 32]);
        KEEP512(B_v);
        const float A_v = A[i * 32 + k];
        acc_0 += A_v * B_v;
        f32x16 B_v_1 = LOAD(f32x16, &B[k * 32 + 16]);
        KEEP512(B_v_1);
        acc_1 += A_v * B_v_1;
        const float A_v_1 = A[i * 32 + 16 + k];
        acc_2 += A_v_1 * B_v;
        acc_3 += A_v_1 * B_v_1;
    }
    float *C_at = &C[i * 64];
    STORE(f32x16, &C_at[0], maxc_f32x16((f32x16){0}, acc_0));
    STORE(f32x16, &C_at[16], maxc_f32x16((f32x16){0}, acc_1));
    STORE(f32x16, &C_at[32], maxc_f32x16((f32x16){0}, acc_2));
    STORE(f32x16, &C_at[48], maxc_f32x16((f32x16){0}, acc_3));
}

int matmul(const float *restrict A, const float *restrict B, float *restrict C) {
    {
        const int home = threads_home();
        #pragma omp parallel num_threads(2)
        {
            threads_spread(home);
            #pragma omp for schedule(static) nowait
            for (i64 i = 0; i < 4; i++)
                matmul_i(A, B, C, i);
        }
    }
    return 0;
}

/* This kernel keeps no memory between calls. */
void matmul_release(void) {}
