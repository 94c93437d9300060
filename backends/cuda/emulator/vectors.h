// Vectors of 16 bytes at most.
#pragma once

template <class T, int N> struct alignas(sizeof(T) * N) ti_vec {
    T lane[N];
    T &operator[](int i) { return lane[i]; }
    const T &operator[](int i) const { return lane[i]; }
};

template <int N, class T> ti_vec<T, N> ti_splat(T value) {
    ti_vec<T, N> result;
    for (int i = 0; i < N; i++) result.lane[i] = value;
    return result;
}

#define TI_VEC_OPERATOR(op)                                                                        \
    template <class T, int N> ti_vec<T, N> operator op(ti_vec<T, N> a, ti_vec<T, N> b) {           \
        ti_vec<T, N> result;                                                                       \
        for (int i = 0; i < N; i++) result.lane[i] = a.lane[i] op b.lane[i];                       \
        return result;                                                                             \
    }
TI_VEC_OPERATOR(+)
TI_VEC_OPERATOR(-)
TI_VEC_OPERATOR(*)
TI_VEC_OPERATOR(/)

namespace ti_emulator {
template <class T> struct plain { using type = T; };
template <class T> struct plain<const T> { using type = T; };
} // namespace ti_emulator
