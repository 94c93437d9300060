// CUDA's functions by their names: those of the C library, declared here, and what it lacks.
#pragma once

#define TI_MATH1(name)                                                                             \
    extern "C" float name##f(float);                                                               \
    extern "C" double name(double);
#define TI_MATH2(name)                                                                             \
    extern "C" float name##f(float, float);                                                        \
    extern "C" double name(double, double);
TI_MATH1(acos) TI_MATH1(acosh) TI_MATH1(asin) TI_MATH1(asinh) TI_MATH1(atan) TI_MATH1(atanh)
TI_MATH1(cbrt) TI_MATH1(ceil) TI_MATH1(cos) TI_MATH1(cosh) TI_MATH1(erf) TI_MATH1(erfc)
TI_MATH1(exp) TI_MATH1(exp2) TI_MATH1(expm1) TI_MATH1(fabs) TI_MATH1(floor) TI_MATH1(lgamma)
TI_MATH1(log) TI_MATH1(log10) TI_MATH1(log1p) TI_MATH1(log2) TI_MATH1(logb) TI_MATH1(nearbyint)
TI_MATH1(rint) TI_MATH1(round) TI_MATH1(sin) TI_MATH1(sinh) TI_MATH1(sqrt) TI_MATH1(tan)
TI_MATH1(tanh) TI_MATH1(tgamma) TI_MATH1(trunc)
TI_MATH2(atan2) TI_MATH2(copysign) TI_MATH2(fdim) TI_MATH2(fmax) TI_MATH2(fmin) TI_MATH2(fmod)
TI_MATH2(hypot) TI_MATH2(nextafter) TI_MATH2(pow) TI_MATH2(remainder)
#undef TI_MATH1
#undef TI_MATH2
extern "C" void *memcpy(void *, const void *, unsigned long);
extern "C" float fmaf(float, float, float), ldexpf(float, int);
extern "C" double fma(double, double, double), ldexp(double, int);
inline float exp10f(float x) { return __builtin_powf(10.0f, x); }
inline double exp10(double x) { return __builtin_pow(10.0, x); }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline double rsqrt(double x) { return 1 / sqrt(x); }

inline bool isnan(float x) { return x != x; }
inline bool isnan(double x) { return x != x; }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline bool isinf(double x) { return __builtin_isinf(x); }
inline bool isfinite(float x) { return __builtin_isfinite(x); }
inline bool isfinite(double x) { return __builtin_isfinite(x); }
inline bool signbit(float x) { return __builtin_signbit(x); }
inline bool signbit(double x) { return __builtin_signbit(x); }

// As GPUs have them: NaN where one is, and 0 is larger than -0.
inline float ti_max(float a, float b) { return a != a || (a == b ? !signbit(a) : a > b) ? a : b; }
inline float ti_min(float a, float b) { return a != a || (a == b ? signbit(a) : a < b) ? a : b; }

#define TI_EXTREMA(T)                                                                              \
    inline T max(T a, T b) { return a > b ? a : b; }                                               \
    inline T min(T a, T b) { return a < b ? a : b; }
TI_EXTREMA(int) TI_EXTREMA(unsigned) TI_EXTREMA(long) TI_EXTREMA(unsigned long)
TI_EXTREMA(long long) TI_EXTREMA(unsigned long long)
#undef TI_EXTREMA
inline float max(float a, float b) { return fmaxf(a, b); }
inline float min(float a, float b) { return fminf(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline int abs(int x) { return x < 0 ? -(unsigned)x : x; }
inline long long llabs(long long x) { return x < 0 ? -(unsigned long long)x : x; }

namespace ti_emulator {
template <class To, class From> To bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To result;
    __builtin_memcpy(&result, &x, sizeof(To));
    return result;
}
} // namespace ti_emulator
inline int __float_as_int(float x) { return ti_emulator::bits<int>(x); }
inline unsigned __float_as_uint(float x) { return ti_emulator::bits<unsigned>(x); }
inline float __int_as_float(int x) { return ti_emulator::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return ti_emulator::bits<float>(x); }
inline long long __double_as_longlong(double x) { return ti_emulator::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return ti_emulator::bits<double>(x); }

inline int __mulhi(int a, int b) { return (long long)a * b >> 32; }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
inline long long __mul64hi(long long a, long long b) { return (__int128)a * b >> 64; }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned __int128)a * b >> 64;
}
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }

// Rounded by themselves: never contracted, since they are called.
#define TI_ROUNDED static __attribute__((noinline))
TI_ROUNDED float __fadd_rn(float a, float b) { return a + b; }
TI_ROUNDED float __fsub_rn(float a, float b) { return a - b; }
TI_ROUNDED float __fmul_rn(float a, float b) { return a * b; }
TI_ROUNDED double __dadd_rn(double a, double b) { return a + b; }
TI_ROUNDED double __dsub_rn(double a, double b) { return a - b; }
TI_ROUNDED double __dmul_rn(double a, double b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frcp_rn(float x) { return 1 / x; }

// Approximations, which are exact here.
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float x) { return expf(x); }
inline float __exp2f(float x) { return exp2f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __powf(float a, float b) { return powf(a, b); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
