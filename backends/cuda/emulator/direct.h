// Memory by plain pointers: runs at full speed, and checks the alignment of vectors only.
#pragma once

#define TI_GLOBAL(type) type *__restrict__
#define TI_LOCAL(type, name, count) alignas(16) type name[count]
#define TI_ARENA(bytes)                                                                            \
    enum { ti_arena_bytes = (bytes) };                                                             \
    unsigned char *const ti_arena = ti_emulator_arena(bytes, __LINE__)
#define TI_SHARED(type, name, offset, count)                                                       \
    static_assert((offset) % sizeof(type) == 0, #name " is misaligned in shared memory");          \
    static_assert((offset) + (count) * sizeof(type) <= ti_arena_bytes, #name " is out of bounds"); \
    type *const name = (type *)(ti_arena + (offset))
#define TI_AT(name, memory, index) auto *const name = (memory) + (index)

namespace ti_emulator {
template <class T> using value_of = T;

template <class P> struct argument {
    static P of(void *given) { return *(P *)given; }
};
template <class T> struct argument<T *__restrict__> {
    static T *of(void *given) { return (T *)((ti_buffer *)given)->data; }
};
template <class T> struct argument<T *> : argument<T *__restrict__> {};

template <int N, class T> T *aligned(T *address, int line) {
    static_assert(sizeof(T) * N <= 16, "an access has 16 bytes at most");
    if ((unsigned long)address % (sizeof(T) * N)) ti_emulator_misaligned("", address, sizeof(T) * N, line);
    return address;
}
template <int N, class T> ti_vec<T, N> load(const T *address, int line) {
    ti_vec<T, N> value;
    __builtin_memcpy(&value, aligned<N>(address, line), sizeof(value));
    return value;
}
template <int N, class T> void store(T *address, const ti_vec<T, N> &value, int line) {
    __builtin_memcpy(aligned<N>(address, line), &value, sizeof(value));
}
} // namespace ti_emulator

#define TI_VEC_ACCESS(N)                                                                           \
    template <class T> ti_vec<T, N> ti_load##N(const T *memory, long long index, int line = __builtin_LINE()) { \
        return ti_emulator::load<N>(memory + index, line);                                         \
    }                                                                                              \
    template <class T> void ti_store##N(T *memory, long long index, ti_vec<T, N> value, int line = __builtin_LINE()) { \
        ti_emulator::store<N>(memory + index, value, line);                                        \
    }
TI_VEC_ACCESS(2)
TI_VEC_ACCESS(4)
TI_VEC_ACCESS(8)
TI_VEC_ACCESS(16)

template <int N, class T>
void ti_copy_async(T *to, long long i, const T *from, long long j, int line = __builtin_LINE()) {
    ti_emulator_copy_async(ti_emulator::aligned<N>(to + i, line), ti_emulator::aligned<N>(from + j, line), N * sizeof(T));
}

#define ti_read_part(memory, index, count) ((memory) + (index))
#define ti_write_part(memory, index, count) ((memory) + (index))
#define ti_update_part(memory, index, count) ((memory) + (index))
