"""The extern functions that come along: sort, argsort and topk. The tests check each.

The order is that of np.sort: NaN comes last, and -0.0 equals 0.0. All work in place, without other
memory: introsort (Musser, Software: Practice and Experience 27, 1997), which turns to heapsort
where partitions stay lopsided; partitions have no branches (Edelkamp and Weiss, BlockQuicksort,
ESA 2016, on why). Up to 1024 values go through a network on vectors (sort_network.py). Indices are
compared with ties broken by place, so that the order is total, and any sort of them is a stable
one; elements of at most 32 bits are sorted in one integer with their place.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from tensorir import dtype as dt
from tensorir.externs.extern import EXTERNS as EXTERNS
from tensorir.externs.extern import Array, ExternFunc
from tensorir.externs.sort_network import NETWORK

_HEAP = """\
static inline void ${NAME}_sift(const $T0 *x, ELEMENT *a, i64 at, i64 n) {
    for (i64 child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && ${NAME}_less(x, a[child], a[child + 1])) child++;
        if (!${NAME}_less(x, a[at], a[child])) return;
        ELEMENT t = a[at];
        a[at] = a[child];
        a[child] = t;
    }
}

/* The elements of a heap, whose first one is the last of all, in order. */
static void ${NAME}_unheap(const $T0 *x, ELEMENT *a, i64 n) {
    for (i64 last = n - 1; last > 0; last--) {
        ELEMENT t = a[0];
        a[0] = a[last];
        a[last] = t;
        ${NAME}_sift(x, a, 0, last);
    }
}
"""

_SORT = """\
static void ${NAME}_sort(const $T0 *x, ELEMENT *a, i64 n, int depth) {
    while (n > 16) {
        SHORT
        if (depth-- == 0) {
            for (i64 at = n / 2; at-- > 0;) ${NAME}_sift(x, a, at, n);
            ${NAME}_unheap(x, a, n);
            return;
        }
        ELEMENT low = a[0], pivot = a[n / 2], high = a[n - 1], t;
        if (${NAME}_less(x, pivot, low)) t = low, low = pivot, pivot = t;
        if (${NAME}_less(x, high, pivot)) pivot = ${NAME}_less(x, high, low) ? low : high;
        i64 left = PARTED;
        if (left < 0) {
            left = 0;
            for (i64 i = 0; i < n; i++) { /* without a branch that could be predicted wrongly */
                t = a[i];
                a[i] = a[left];
                a[left] = t;
                left += ${NAME}_less(x, t, pivot);
            }
        }
        if (left == 0) { /* the pivot is the smallest: all that equal it are in their place */
            for (i64 i = 0; i < n; i++) {
                t = a[i];
                a[i] = a[left];
                a[left] = t;
                left += !${NAME}_less(x, pivot, t);
            }
            a += left;
            n -= left;
        } else if (left < n - left) {
            ${NAME}_sort(x, a, left, depth);
            a += left;
            n -= left;
        } else {
            ${NAME}_sort(x, a + left, n - left, depth);
            n = left;
        }
    }
    for (i64 i = 1; i < n; i++) {
        ELEMENT t = a[i];
        i64 j = i;
        for (; j > 0 && ${NAME}_less(x, t, a[j - 1]); j--) a[j] = a[j - 1];
        a[j] = t;
    }
}

static inline int ${NAME}_depth(i64 n) {
    int depth = 0;
    for (; n > 0; n >>= 1) depth += 2;
    return depth;
}
"""

_BY_VALUE = """\
static inline int ${NAME}_less(const $T0 *x, $T0 a, $T0 b) {
    (void)x;
    return $BEFORE0($GET0(a), $GET0(b));
}
"""

_BY_PLACE = """\
/* Whether the element at a stands before the one at b; of equal ones the first does. */
static inline int ${NAME}_less(const $T0 *x, i64 a, i64 b) {
    $V0 p = $GET0(x[a]), q = $GET0(x[b]);
    return $BEFORE0(FIRST, SECOND) | (!$BEFORE0(SECOND, FIRST) & (a < b));
}
"""


def _text(less: str, *parts: str, element: str = "i64", order: tuple[str, str] = ("p", "q")) -> str:
    text = "\n".join((less, _HEAP, *parts)).replace("ELEMENT", element)
    short = "        if (${NAME}_short(a, n)) return;\n" if NETWORK in parts else ""
    text = text.replace("        SHORT\n", short)
    text = text.replace("PARTED", "${NAME}_part(a, n, pivot)" if NETWORK in parts else "-1")
    return text.replace("FIRST", order[0]).replace("SECOND", order[1])


SORT = ExternFunc(
    name="sort",
    signature="(n)->(n)",
    dtypes=tuple((each, each) for each in dt.SCALARS),
    c=_text(
        _BY_VALUE,
        NETWORK,
        _SORT,
        """\
static void $NAME(const $T0 *x, $T1 *y, i64 n) {
    for (i64 i = 0; i < n; i++) y[i] = x[i];
    ${NAME}_sort(x, y, n, ${NAME}_depth(n));
}
""",
        element="$T0",
    ),
    numpy=np.sort,
    bounded=(0,),
)
"""The elements in ascending order, NaN last."""


def _packed() -> str:
    """_sort and what it needs, as _packed_sort of an array of i64."""
    less = "static inline int ${NAME}_less(const i64 *x, i64 a, i64 b) { return (void)x, a < b; }\n"
    text = _text(less, NETWORK, _SORT)
    for old, new in (("${NAME}_", "${NAME}_packed_"), ("$T0", "i64"), ("$V0", "i64")):
        text = text.replace(old, new)
    return text


_BY_KEY = """\
/* An element of at most 32 bits as an integer of the same order; all NaN are the largest. */
static inline i64 ${NAME}_key($V0 value) {
    if (!_Generic(($V0)0, float: 1, default: 0))
        return (i64)value - (($V0)-1 > 0 && sizeof(value) == 4 ? 1ll << 31 : 0);
    const float v = (float)value + 0.0f; /* -0.0 becomes 0.0 */
    int bits;
    __builtin_memcpy(&bits, &v, 4);
    return v != v ? 0x7fffffff : bits ^ (bits >> 31 & 0x7fffffff);
}
"""


def _argsort(x: Array) -> Array:
    return np.argsort(x, kind="stable")


ARGSORT = ExternFunc(
    name="argsort",
    signature="(n)->(n)",
    dtypes=tuple((each, "int64") for each in dt.SCALARS),
    c=_packed()
    + _BY_KEY
    + _text(
        _BY_PLACE,
        _SORT,
        """\
static void $NAME(const $T0 *x, i64 *at, i64 n) {
    if (sizeof($V0) <= 4 && n >> 31 == 0) { /* the key, and the place where keys are equal */
        for (i64 i = 0; i < n; i++) at[i] = ${NAME}_key($GET0(x[i])) * (1ll << 32) + i;
        ${NAME}_packed_sort(at, at, n, ${NAME}_depth(n));
        for (i64 i = 0; i < n; i++) at[i] &= 0xffffffff;
        return;
    }
    for (i64 i = 0; i < n; i++) at[i] = i;
    ${NAME}_sort(x, at, n, ${NAME}_depth(n));
}
""",
    ),
    numpy=_argsort,
)
"""The places of the elements in ascending order; equal elements keep their order."""


def _topk(x: Array, k: int) -> tuple[Array, Array]:
    # reversed before and after: equal elements then come in their own order
    place = len(x) - 1 - np.argsort(x[::-1], kind="stable")[::-1][:k]
    return x[place], place


TOPK = ExternFunc(
    name="topk",
    signature="(n)->(k),(k)",
    dtypes=tuple((each, each, "int64") for each in dt.SCALARS),
    c=_text(
        _BY_PLACE,
        _SORT,
        """\
/* Whether one of 16 elements is larger than the smallest found so far, or NaN. */
static inline int ${NAME}_above(const $T0 *x, $V0 least) {
    int any = 0;
    for (int i = 0; i < 16; i++) any |= !($GET0(x[i]) <= least);
    return any;
}

/* For few: those found so far in order, the largest first. */
static void ${NAME}_insert(const $T0 *x, $T1 *y, i64 *at, i64 n, i64 k) {
    for (i64 i = 0, found = 0; i < n && k > 0;) {
        if (found == k && i + 16 <= n && !${NAME}_above(x + i, $GET0(y[k - 1]))) {
            i += 16;
            continue;
        }
        for (i64 end = i + 16 < n ? i + 16 : n; i < end; i++) {
            $V0 value = $GET0(x[i]);
            if (found == k && !$BEFORE0($GET0(y[k - 1]), value)) continue;
            i64 j = found < k ? found++ : k - 1;
            for (; j > 0 && $BEFORE0($GET0(y[j - 1]), value); j--) {
                y[j] = y[j - 1];
                at[j] = at[j - 1];
            }
            y[j] = x[i];
            at[j] = i;
        }
    }
}

static void $NAME(const $T0 *x, $T1 *y, i64 *at, i64 n, i64 k) {
    if (k <= 32 && k < n) {
        ${NAME}_insert(x, y, at, n, k);
        return;
    }
    for (i64 i = 0; i < k; i++) at[i] = i;
    if (k == n) {
        ${NAME}_sort(x, at, n, ${NAME}_depth(n));
    } else {
        for (i64 i = k / 2; i-- > 0;) ${NAME}_sift(x, at, i, k);
        for (i64 i = k; i < n && k > 0;) {
            if (i + 16 <= n && !${NAME}_above(x + i, $GET0(x[at[0]]))) {
                i += 16;
                continue;
            }
            for (i64 end = i + 16 < n ? i + 16 : n; i < end; i++)
                if (${NAME}_less(x, i, at[0])) {
                    at[0] = i;
                    ${NAME}_sift(x, at, 0, k);
                }
        }
        ${NAME}_unheap(x, at, k);
    }
    for (i64 i = 0; i < k; i++) y[i] = x[at[i]];
}
""",
        order=("q", "p"),
    ),
    numpy=_topk,
    where="k <= n",
    bounded=(0,),
)
"""The k largest elements, largest first, and their places; NaN counts as the largest of all, and of
equal elements the first comes first. With k = n that is a sort in descending order."""

BUILT_IN_EXTERNS: tuple[ExternFunc, ...] = (SORT, ARGSORT, TOPK)

EXTERNS.update({each.name: each for each in BUILT_IN_EXTERNS})


def extern_digest(name: str) -> str:
    """What tells functions of one name apart, in different processes: "" for those built in and for
    one that is not known here."""
    func = EXTERNS.get(name)
    if func is None or func in BUILT_IN_EXTERNS:
        return ""
    text = "\n".join((func.signature, func.where, func.c))
    return blake2b(text.encode(), digest_size=8).hexdigest()
