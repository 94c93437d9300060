"""Workspace: memory for intermediate buffers that are too large for the stack.

Blocks are kept from one call to the next, because fresh memory costs a page fault every 4 KiB. They
are not thread-local, since threads that end would leak them: each size has a list of free blocks, a
thread takes the one it used last, which its cache may still hold, and puts it back. So there are at
most as many blocks as threads held of that size at once, and `NAME_release` may run at any time: it
frees the blocks that are not in use. The threads that use a block touch it first, so its pages lie
at their memory; large blocks are on huge pages. No fork happens while a thread holds the lock,
which nobody would leave in the child.

Blocks of 4 MiB or more ask for huge pages, as packed constants of 2 MiB do: 512 times fewer page
faults. In later calls no difference was measured where rows are read one after the other.
"""

from __future__ import annotations

from string import Template

from backends.c.support import Support

HUGE_PAGE = 1 << 21
HUGE_FROM = 2 * HUGE_PAGE
"""Bytes of a block from which on it is worth the rounding to huge pages."""

_FUNCTIONS = Template("""\
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
__attribute__((malloc)) ${static}void *workspace_take(workspace_block **kept, i64 bytes) {
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
        const int huge = bytes >= $huge_from;
        if (bytes < 0 || posix_memalign(&memory, huge ? $huge_page : 64, size)) return 0;
        if (huge) madvise(memory, size, 14); /* MADV_HUGEPAGE */
        block = memory;
        block->bytes = bytes;
    }
    block->owner = &workspace_owner;
    return block + 1;
}

${static}void workspace_give(workspace_block **kept, void *memory) {
    workspace_block *block = (workspace_block *)memory - 1;
    workspace_enter();
    block->next = *kept;
    *kept = block;
    workspace_leave();
}

${static}void workspace_drop(workspace_block **kept) {
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
""")

_TYPE = "typedef struct workspace_block workspace_block;\n"

WORKSPACE = Support(
    "workspace",
    f"typedef __INT64_TYPE__ i64;\n{_TYPE}",
    Template(
        "__attribute__((malloc)) "
        "${static}void *workspace_take(workspace_block **kept, i64 bytes);\n"
        "${static}void workspace_give(workspace_block **kept, void *memory);\n"
        "${static}void workspace_drop(workspace_block **kept);\n"
    ),
    Template(_FUNCTIONS.safe_substitute(huge_from=HUGE_FROM, huge_page=HUGE_PAGE)),
)

_TEXT = Template(
    f"""\
/* Memory for large intermediate buffers, kept between calls; $release() gives it back. */
{_TYPE}
{WORKSPACE.text}
static workspace_block *workspace_free[$slots];
"""
)

_RELEASE = Template(
    """\
/* Frees the memory kept between calls; the kernel may be called again afterwards. */
void $release(void) {
    for (int slot = 0; slot < $slots; slot++) workspace_drop(&workspace_free[slot]);
}
"""
)

_NOTHING = Template("/* This kernel keeps no memory between calls. */\nvoid $release(void) {}\n")


def workspace_text(slots: int, release: str) -> tuple[str, str]:
    """The text before the kernel and the one after it, for a number of lists of blocks."""
    if not slots:
        return "", _NOTHING.substitute(release=release)
    words = {"slots": slots, "release": release}
    return _TEXT.substitute(words), _RELEASE.substitute(words)
