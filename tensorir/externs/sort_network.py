"""C text that sorts a few elements by a bitonic network on vectors (Batcher, AFIPS 1968), and
parts many by a pivot.

All comparisons put the smaller element first: a merge begins with the mirrored half. Steps between
vectors are minima and maxima of whole vectors, those within a vector go through a shuffle.
"""

from __future__ import annotations

NETWORK = """\
/* Up to 1024 elements by a bitonic network on vectors; 0 where that is not for them. */
#if !defined(__clang__) && (defined(__AVX512F__) || defined(__AVX2__))
#ifdef __AVX512F__
enum { ${NAME}_bytes = 64 };
#else
enum { ${NAME}_bytes = 32 };
#endif
typedef __typeof__(_Generic(($T0)0, float: 0, double: (i64)0, _Bool: (unsigned char)0,
                            default: ($T0)0)) ${NAME}_key;
typedef ${NAME}_key ${NAME}_vec __attribute__((vector_size(${NAME}_bytes)));
enum {
    ${NAME}_real = _Generic(($T0)0, float: 1, double: 1, default: 0),
    ${NAME}_lanes = ${NAME}_bytes / sizeof(${NAME}_key)
};
typedef struct {
    ${NAME}_vec mirror[6], stride[6], upper[6];
} ${NAME}_places;

static inline ${NAME}_vec ${NAME}_least(${NAME}_vec a, ${NAME}_vec b) {
    ${NAME}_vec r = a;
    for (int i = 0; i < ${NAME}_lanes; i++) r[i] = a[i] < b[i] ? a[i] : b[i];
    return r;
}

static inline ${NAME}_vec ${NAME}_most(${NAME}_vec a, ${NAME}_vec b) {
    ${NAME}_vec r = a;
    for (int i = 0; i < ${NAME}_lanes; i++) r[i] = a[i] < b[i] ? b[i] : a[i];
    return r;
}

/* Each lane and the one at its place in `at`: the upper of the two gets the larger. */
static inline ${NAME}_vec ${NAME}_step(${NAME}_vec v, ${NAME}_vec at, ${NAME}_vec upper) {
    ${NAME}_vec p = __builtin_shuffle(v, at);
    return (${NAME}_least(v, p) & ~upper) | (${NAME}_most(v, p) & upper);
}

static inline ${NAME}_vec ${NAME}_merge(${NAME}_vec v, const ${NAME}_places *t, int d) {
    while (d-- > 0) v = ${NAME}_step(v, t->stride[d], t->upper[d]);
    return v;
}

static void ${NAME}_network(${NAME}_vec *v, int count) {
    ${NAME}_places t;
    int top = 0;
    for (; 1 << top < ${NAME}_lanes; top++)
        for (int i = 0; i < ${NAME}_lanes; i++) {
            t.mirror[top][i] = i ^ ((2 << top) - 1);
            t.stride[top][i] = i ^ (1 << top);
            t.upper[top][i] = i >> top & 1 ? -1 : 0;
        }
    const ${NAME}_vec back = t.mirror[top - 1];
    for (int n = 0; n < count; n++)
        for (int k = 0; k < top; k++)
            v[n] = ${NAME}_merge(${NAME}_step(v[n], t.mirror[k], t.upper[k]), &t, k);
    for (int k = 2; k <= count; k *= 2) {
        for (int s = 0; s < count; s += k)
            for (int n = s, m = s + k - 1; n < m; n++, m--) {
                const ${NAME}_vec a = v[n], b = __builtin_shuffle(v[m], back);
                v[n] = ${NAME}_least(a, b);
                v[m] = __builtin_shuffle(${NAME}_most(a, b), back);
            }
        for (int d = k / 4; d > 0; d /= 2)
            for (int s = 0; s < count; s += 2 * d)
                for (int n = s; n < s + d; n++) {
                    const ${NAME}_vec a = v[n], b = v[n + d];
                    v[n] = ${NAME}_least(a, b);
                    v[n + d] = ${NAME}_most(a, b);
                }
        for (int n = 0; n < count; n++) v[n] = ${NAME}_merge(v[n], &t, top);
    }
}

/* Floats are ordered as integers: of negative ones, all bits but the sign are turned around. */
static int ${NAME}_short($T0 *x, i64 n) {
    if (n < 32 || n > 1024 || sizeof($V0) != sizeof($T0)) return 0;
    ${NAME}_vec v[1024 / ${NAME}_lanes];
    int count = 1;
    while (count * ${NAME}_lanes < n) count *= 2;
    const int bits = 8 * sizeof(${NAME}_key);
    const ${NAME}_key top = (${NAME}_key)-1 > 0 ? (${NAME}_key)-1
                                                : (${NAME}_key)((1ull << (bits - 1)) - 1);
    const ${NAME}_key inf = (${NAME}_key)(bits == 64 ? (i64)0x7ff << 52 : 0x7f800000);
    const ${NAME}_key end = ${NAME}_real ? inf : top;
    const ${NAME}_vec size = (${NAME}_vec){0} + top, limit = (${NAME}_vec){0} + inf;
    v[(n - 1) / ${NAME}_lanes] = (${NAME}_vec){0} + end;
    __builtin_memcpy(v, x, n * sizeof($T0));
    for (i64 i = (n - 1) / ${NAME}_lanes + 1; i < count; i++) v[i] = (${NAME}_vec){0} + end;
    if (${NAME}_real) {
        ${NAME}_vec nan = {0};
        for (int i = 0; i < count; i++) {
            nan |= (${NAME}_vec)((v[i] & size) > limit);
            v[i] ^= (v[i] >> (bits - 1)) & size;
        }
        for (int i = 0; i < ${NAME}_lanes; i++)
            if (nan[i]) return 0;
    }
    ${NAME}_network(v, count);
    if (${NAME}_real)
        for (int i = 0; i < count; i++) v[i] ^= (v[i] >> (bits - 1)) & size;
    __builtin_memcpy(x, v, n * sizeof($T0));
    return 1;
}
#else
static inline int ${NAME}_short($T0 *x, i64 n) {
    (void)x, (void)n;
    return 0;
}
#endif

/* Brings what is less than the pivot before the rest, in place; how many that are, or -1 where it
   is not for them. Vectors are read at the end that has less room left, and both ends are written:
   two vectors that are kept aside make room. */
#if !defined(__clang__) && defined(__AVX512F__)
typedef int ${NAME}_i32s __attribute__((vector_size(64)));
typedef long long ${NAME}_i64s __attribute__((vector_size(64)));
typedef __typeof__(_Generic(($T0)0, _Bool: (unsigned char)0, default: ($T0)0)) ${NAME}_cell;
typedef ${NAME}_cell ${NAME}_row
    __attribute__((vector_size(64), aligned(sizeof($T0)), may_alias));

static inline void ${NAME}_ends($T0 *x, ${NAME}_row v, $T0 pivot, i64 *low, i64 *high) {
    const ${NAME}_row p = (${NAME}_row){0} + (${NAME}_cell)pivot;
    if (sizeof($T0) == 4) {
        const ${NAME}_i32s b = (${NAME}_i32s)v, below = (${NAME}_i32s)(v < p);
        const unsigned m = (unsigned short)__builtin_ia32_ptestmd512(below, below, -1);
        const int count = __builtin_popcount(m);
        __builtin_ia32_storedqusi512_mask(
            (int *)(x + *low), __builtin_ia32_compresssi512_mask(b, b, m), (1u << count) - 1);
        *low += count;
        *high -= 16 - count;
        __builtin_ia32_storedqusi512_mask(
            (int *)(x + *high), __builtin_ia32_compresssi512_mask(b, b, (unsigned short)~m),
            (1u << (16 - count)) - 1);
    } else {
        const ${NAME}_i64s b = (${NAME}_i64s)v, below = (${NAME}_i64s)(v < p);
        const unsigned m = (unsigned char)__builtin_ia32_ptestmq512(below, below, -1);
        const int count = __builtin_popcount(m);
        __builtin_ia32_storedqudi512_mask(
            (long long *)(x + *low), __builtin_ia32_compressdi512_mask(b, b, m), (1u << count) - 1);
        *low += count;
        *high -= 8 - count;
        __builtin_ia32_storedqudi512_mask(
            (long long *)(x + *high), __builtin_ia32_compressdi512_mask(b, b, (unsigned char)~m),
            (1u << (8 - count)) - 1);
    }
}

static i64 ${NAME}_part($T0 *x, i64 n, $T0 pivot) {
    enum { lanes = 64 / sizeof($T0) };
    if (n < 4 * lanes || lanes > 16 || pivot != pivot) return -1;
    const ${NAME}_row first = *(${NAME}_row *)x, last = *(${NAME}_row *)(x + n - lanes);
    $T0 rest[lanes];
    i64 low = 0, high = n, begin = lanes, end = n - lanes;
    while (end - begin >= lanes) {
        const int left = begin - low <= high - end;
        end -= left ? 0 : lanes;
        const ${NAME}_row v = *(${NAME}_row *)(x + (left ? begin : end));
        begin += left ? lanes : 0;
        ${NAME}_ends(x, v, pivot, &low, &high);
    }
    const i64 count = end - begin;
    for (i64 i = 0; i < count; i++) rest[i] = x[begin + i];
    ${NAME}_ends(x, first, pivot, &low, &high);
    ${NAME}_ends(x, last, pivot, &low, &high);
    for (i64 i = 0; i < count; i++) {
        if (rest[i] < pivot) x[low++] = rest[i];
        else x[--high] = rest[i];
    }
    return low;
}
#else
static inline i64 ${NAME}_part($T0 *x, i64 n, $T0 pivot) {
    (void)x, (void)n, (void)pivot;
    return -1;
}
#endif
"""
"""Defines ${NAME}_part, and ${NAME}_short(x, n), which sorts up to 1024 elements and returns 1; or
0 where it does not: NaN among them, 16-bit floats, no such vectors."""
