/* softmax_row, generated for c -threads=2 -vector_bits=512

   reads X: f32[n]
   writes Y: f32[n]
*/

typedef __INT64_TYPE__ i64;
typedef __INT32_TYPE__ i32;

static inline float maxc_f32(float a, float b) { return a > b ? a : b; }

static inline float max_f32(float a, float b) {
    float m = maxc_f32(a, b);
    return a != a ? a : m;
}

static inline float minc_f32(float a, float b) { return a < b ? a : b; }

static inline float scale_f32(float p, float n) {
    i32 k = (i32)n, half = k >> 1;
    union { i32 i; float f; } a = {(half + 127) << 23}, b = {(k - half + 127) << 23};
    return p * a.f * b.f;
}

static inline float pick_f32(float x, float y, float a, float b) { return x < y ? a : b; }

static inline float exp_rest_f32(float c, float n) {
    float r = c - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float z = r * r, p = r * 8.368674e-3f + 4.1668262e-2f; /* in pairs: a shorter chain */
    p = z * 1.3821035e-3f + p;
    p = p * z + (r * 1.6666521e-1f + 4.9999994e-1f);
    return p * z + r;
}

static inline float exp_f32(float x) {
    float least = (float){0} - 104.0f, c = minc_f32((float){0} + 89.0f, maxc_f32(least, x)); /* NaN stays NaN */
    float n = (c * 1.44269504f + 12582912.0f) - 12582912.0f;
    return scale_f32(pick_f32(x, least, (float){0}, exp_rest_f32(c, n) + 1.0f), n);
}

/* Memory for large intermediate buffers, kept between calls; softmax_row_release() gives it back. */
typedef struct workspace_block workspace_block;

extern int posix_memalign(void **, __SIZE_TYPE__, __SIZE_TYPE__);
extern void free(void *);
extern int sched_yield(void);
#ifdef __linux__
extern int madvise(void *, __SIZE_TYPE__, int);
#else
#define madvise(p, n, advice) ((void)0)
#endif

struct workspace_block {
    workspace_block *next;
    const void *owner;
    i64 bytes;
} __attribute__((aligned(64)));

static int workspace_lock;
static __thread char workspace_owner; /* its address tells threads apart */

static void workspace_enter(void) {
    while (__atomic_exchange_n(&workspace_lock, 1, __ATOMIC_ACQUIRE)) sched_yield();
}

static void workspace_leave(void) {
    __atomic_store_n(&workspace_lock, 0, __ATOMIC_RELEASE);
}

extern int pthread_atfork(void (*)(void), void (*)(void), void (*)(void));

__attribute__((constructor)) static void workspace_begin(void) { /* no fork with the lock held */
    pthread_atfork(workspace_enter, workspace_leave, workspace_leave);
}

/* At least `bytes` bytes, aligned to 64; a null pointer where memory is short. Compilers are told
   that two are different: else sums in one are stored at each step of a loop that reads another. */
__attribute__((malloc)) static void *workspace_take(workspace_block **kept, i64 bytes) {
    workspace_enter();
    workspace_block **chosen = kept;
    for (workspace_block **at = chosen; *at; at = &(*at)->next)
        if ((*at)->owner == &workspace_owner) {
            chosen = at;
            break;
        }
    workspace_block *block = *chosen;
    if (block) *chosen = block->next;
    workspace_leave();
    if (block && block->bytes < bytes) {
        free(block);
        block = 0;
    }
    if (!block) {
        void *memory;
        __SIZE_TYPE__ size = (__SIZE_TYPE__)bytes + sizeof *block;
        const int huge = bytes >= 4194304;
        if (bytes < 0 || posix_memalign(&memory, huge ? 2097152 : 64, size)) return 0;
        if (huge) madvise(memory, size, 14); /* MADV_HUGEPAGE */
        block = memory;
        block->bytes = bytes;
    }
    block->owner = &workspace_owner;
    return block + 1;
}

static void workspace_give(workspace_block **kept, void *memory) {
    workspace_block *block = (workspace_block *)memory - 1;
    workspace_enter();
    block->next = *kept;
    *kept = block;
    workspace_leave();
}

static void workspace_drop(workspace_block **kept) {
    workspace_enter();
    workspace_block *block = *kept;
    *kept = 0;
    workspace_leave();
    while (block) {
        workspace_block *next = block->next;
        free(block);
        block = next;
    }
}

static workspace_block *workspace_free[1];

int softmax_row(const float *restrict X, float *restrict Y, i64 n) {
    float T[2] __attribute__((aligned(64)));
    float *restrict E = workspace_take(&workspace_free[0], n * 4);
    if (!E) {
        return 1;
    }
    T[0] = -__builtin_inff();
    for (i64 i = 0; i < n; i++) {
        T[0] = max_f32(X[i], T[0]);
    }
    T[1] = 0.0f;
    for (i64 i = 0; i < n; i++) {
        E[i] = exp_f32(X[i] - T[0]);
        T[1] += E[i];
    }
    for (i64 i = 0; i < n; i++) {
        Y[i] = E[i] / T[1];
    }
    workspace_give(&workspace_free[0], E);
    return 0;
}

/* Frees the memory kept between calls; the kernel may be called again afterwards. */
void softmax_row_release(void) {
    for (int slot = 0; slot < 1; slot++) workspace_drop(&workspace_free[slot]);
}
