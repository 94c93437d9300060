// float16 and bfloat16, which are bits: rounded to nearest, ties to even, as the hardware does it.
#pragma once

inline float ti_f16_to_f32(unsigned short x) {
    const unsigned sign = (x & 0x8000u) << 16, rest = x & 0x7fffu;
    if (rest >= 0x7c00) return __uint_as_float(sign | 0x7f800000 | rest << 13);
    return __uint_as_float(sign | __float_as_uint(__uint_as_float(rest << 13) * 0x1p112f));
}
inline unsigned short ti_f16_from_f64(double x) {
    const unsigned long long bits = __double_as_longlong(x), rest = bits << 1 >> 1;
    const unsigned sign = bits >> 63 << 15;
    const double size = __longlong_as_double(rest);
    if (size != size) return 0x7fff; // what the hardware makes of every NaN
    if (size >= 65520) return sign | 0x7c00;
    if (size < 0x1p-14) return sign | (unsigned)rint(size * 0x1p24);
    const unsigned long long rounded = rest + ((1ull << 41) - 1) + (rest >> 42 & 1);
    return sign | ((rounded >> 42) - (1008u << 10));
}
inline unsigned short ti_f16_from_f32(float x) { return ti_f16_from_f64(x); }

inline float ti_bf16_to_f32(unsigned short x) { return __uint_as_float((unsigned)x << 16); }
inline unsigned short ti_bf16_from_f32(float x) {
    const unsigned bits = __float_as_uint(x);
    if (x != x) return 0x7fff;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
