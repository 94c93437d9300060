"""Single-precision functions without branches, so that loops over lanes become vector code.

A libm call in a vector is sixteen calls. These are a few ulp from exact (the tests hold them to
it) over the whole range, subnormal results, infinities and NaN included, and scalars use the very
same text, so that vectorising a loop does not change its results by more than contraction does.

exp, log and tanh have the range reductions and polynomials of Cephes (S. Moshier, expf.c, logf.c,
tanhf.c). erf is a polynomial in x^2 up to 1 and 1 - exp(-x^2) P(1 / (1 + x / 2)) beyond; both were
fitted to double precision by iteratively reweighted least squares.
"""

from __future__ import annotations

_EXP = """(float x) {
    float c = x < -104.0f ? -104.0f : x; /* NaN stays NaN in both lines */
    c = c > 89.0f ? 89.0f : c;
    float n = __builtin_rintf(c * 1.44269504f);
    float r = c - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    i32 k = (i32)n, half = k >> 1; /* 2^k in two steps: k goes from -150 to 128 */
    union { i32 i; float f; } a = {(half + 127) << 23}, b = {(k - half + 127) << 23};
    return p * a.f * b.f;
}"""

_LOG = """(float x) {
    int tiny = x < 1.17549435e-38f;
    union { float f; i32 i; } v = {tiny ? x * 33554432.0f : x}, m;
    i32 e = (v.i >> 23) - (tiny ? 151 : 126);
    m.i = (v.i & 0x7fffff) | 0x3f000000; /* x = m * 2^e, and m is in [1/2, 1) */
    int low = m.f < 0.707106781f;
    float n = (float)(e - low), y = (low ? m.f + m.f : m.f) - 1.0f, z = y * y;
    float p = y * 7.0376836292e-2f - 1.1514610310e-1f;
    p = p * y + 1.1676998740e-1f;
    p = p * y - 1.2420140846e-1f;
    p = p * y + 1.4249322787e-1f;
    p = p * y - 1.6668057665e-1f;
    p = p * y + 2.0000714765e-1f;
    p = p * y - 2.4999993993e-1f;
    p = p * y + 3.3333331174e-1f;
    p = p * y * z + n * -2.12194440e-4f - 0.5f * z;
    float r = y + p + n * 0.693359375f;
    r = x > 3.402823466e38f ? x : r;
    r = x < 0.0f ? __builtin_nanf("") : r;
    r = x == 0.0f ? -__builtin_inff() : r;
    return x != x ? x : r;
}"""

_TANH = """(float x) {
    float a = __builtin_fabsf(x), z = a * a;
    float p = z * -5.70498872745e-3f + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    float small = p * z * a + a, large = 1.0f - 2.0f / (exp_f32(a + a) + 1.0f);
    return __builtin_copysignf(a < 0.625f ? small : large, x);
}"""

_ERF = """(float x) {
    float a = __builtin_fabsf(x), z = x * x;
    float p = z * 7.889122935e-5f - 8.020842215e-4f;
    p = p * z + 5.189535674e-3f;
    p = p * z - 2.685444430e-2f;
    p = p * z + 1.128360033e-1f;
    p = p * z - 3.761262596e-1f;
    p = p * z + 1.128379107f;
    float t = 1.0f / (1.0f + 0.5f * a);
    float q = t * -2.308016121e-1f + 6.366798282e-1f;
    q = q * t - 6.446041167e-2f;
    q = q * t + 3.968019485e-1f;
    q = q * t + 2.597006559e-1f;
    q = q * t + 1.822477439e-3f;
    float large = __builtin_copysignf(1.0f - exp_f32(-z) * q, x);
    return a < 1.0f ? p * x : large;
}"""

_SIGMOID = """(float x) {
    float e = exp_f32(-__builtin_fabsf(x)); /* never overflows */
    return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}"""

TEXTS = {"exp": _EXP, "log": _LOG, "tanh": _TANH, "erf": _ERF, "sigmoid": _SIGMOID}
"""Parameter list and body of each function, the name of which ends in _f32."""
