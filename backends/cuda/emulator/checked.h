// Memory whose every access is checked: indexing gives an Element, which knows the line of the text.
#pragma once

namespace ti_emulator {
// An index, and the line that it stands in.
struct At {
    long long index;
    int line;
    template <class I>
    At(const I &index, int line = __builtin_LINE()) : index((long long)index), line(line) {}
};

template <class M> struct Element {
    using T = typename M::value;
    const M &memory;
    At at;
    operator T() const { return memory.template read<1>(at)[0]; }
    Element &operator=(T value) {
        memory.write(at, ti_vec<T, 1>{{value}});
        return *this;
    }
    Element &operator=(const Element &other) { return *this = T(other); }
    Element &operator+=(T other) { return *this = T(*this) + other; }
    Element &operator-=(T other) { return *this = T(*this) - other; }
    Element &operator*=(T other) { return *this = T(*this) * other; }
    Element &operator/=(T other) { return *this = T(*this) / other; }
    Element &operator&=(T other) { return *this = T(*this) & other; }
    Element &operator|=(T other) { return *this = T(*this) | other; }
    Element &operator^=(T other) { return *this = T(*this) ^ other; }
    Element &operator++() { return *this += 1; }
    Element &operator--() { return *this -= 1; }
    T operator++(int) {
        const T before = *this;
        *this = before + 1;
        return before;
    }
    T operator--(int) {
        const T before = *this;
        *this = before - 1;
        return before;
    }
};

template <class T> struct value_of_ { using type = T; };
template <class M> struct value_of_<Element<M>> { using type = typename M::value; };
template <class T> using value_of = typename value_of_<T>::type;

// What a read gives that must not be done.
template <class V> V poison() {
    V value;
    __builtin_memset((void *)&value, 0xff, sizeof(V));
    return value;
}

// A parameter, or a part of shared memory.
template <class Q> struct Memory {
    using value = typename plain<Q>::type;
    const ti_buffer *buffer;
    long long first = 0; // element that index 0 is

    At moved(At at) const { return At(first + at.index, at.line); }
    template <int N> ti_vec<value, N> read(At given) const {
        using V = ti_vec<value, N>;
        const At at = moved(given);
        if (!ti_emulator_touch(buffer, at.index, N, TI_READ, at.line)) return poison<V>();
        V result;
        __builtin_memcpy((void *)&result, (value *)buffer->data + at.index, sizeof(V));
        return result;
    }
    template <int N> void write(At place, const ti_vec<value, N> &given) const {
        const At at = moved(place);
        if (ti_emulator_touch(buffer, at.index, N, TI_WRITE, at.line))
            __builtin_memcpy((void *)((value *)buffer->data + at.index), &given, sizeof(given));
    }
    value *part(At given, long long count, int access) const {
        const At at = moved(given);
        ti_emulator_touch(buffer, at.index, count, access | TI_PART, at.line);
        return (value *)buffer->data + at.index;
    }
    Element<Memory> operator[](At at) const { return {*this, at}; }
};
template <class T> struct Memory<const T> : Memory<T> {
    T operator[](At at) const { return this->template read<1>(at)[0]; }
};

// The registers of a thread. Those that never change place need no help of the runtime.
template <class T, int N> struct Local {
    using value = T;
    const char *name;
    alignas(16) mutable T data[N];
    mutable bool written[N] = {};

    explicit Local(const char *name) : name(name) {}
    template <int C> ti_vec<T, C> read(At at) const {
        bool fine = at.index >= 0 && at.index + C <= N && at.index % C == 0;
        for (int i = 0; fine && i < C; i++) fine = written[at.index + i];
        if (!fine && !ti_emulator_local_fault(name, at.index, C, N, TI_READ, at.line))
            return poison<ti_vec<T, C>>();
        ti_vec<T, C> result;
        for (int i = 0; i < C; i++) result.lane[i] = data[at.index + i];
        return result;
    }
    template <int C> void write(At at, const ti_vec<T, C> &given) const {
        const bool fine = at.index >= 0 && at.index + C <= N && at.index % C == 0;
        if (!fine && !ti_emulator_local_fault(name, at.index, C, N, TI_WRITE, at.line)) return;
        for (int i = 0; i < C; i++) {
            data[at.index + i] = given.lane[i];
            written[at.index + i] = true;
        }
    }
    T *part(At at, long long count, int access) const {
        if (at.index < 0 || at.index + count > N)
            ti_emulator_local_fault(name, at.index, count, N, access, at.line);
        for (int i = at.index; i < at.index + count && i >= 0 && i < N; i++)
            if (access == TI_WRITE) written[i] = true;
            else if (!written[i]) ti_emulator_local_fault(name, i, 1, N, access, at.line);
        return data + at.index;
    }
    Element<Local> operator[](At at) const { return {*this, at}; }
};

template <class P> struct argument {
    static P of(void *given) { return *(P *)given; }
};
template <class T> struct argument<Memory<T>> {
    static Memory<T> of(void *given) {
        Memory<T> memory;
        memory.buffer = (ti_buffer *)given;
        return memory;
    }
};

// The smallest element in any shared memory of the text is known before a kernel runs.
template <int itemsize> struct Itemsize { static int noted; };
template <int itemsize> int Itemsize<itemsize>::noted = ti_emulator_note_itemsize(itemsize);
template <class T> Memory<T> part(ti_buffer &buffer) {
    (void)Itemsize<sizeof(T)>::noted;
    Memory<T> memory;
    memory.buffer = &buffer;
    return memory;
}
// The steps of loops that a thread is in.
struct Step {
    const unsigned long before;
    Step(long long number, int line) : before(ti_emulator_begin_step(number, line)) {}
    ~Step() { ti_emulator_end_step(before); }
};
// The elements of memory from the one at `index` on.
template <class M> M from(const M &memory, long long index) {
    M result = memory;
    result.first += index;
    return result;
}
} // namespace ti_emulator

#define TI_STEP(number) const ti_emulator::Step ti_step(number, __LINE__)
#define TI_GLOBAL(type) ti_emulator::Memory<type>
#define TI_LOCAL(type, name, count) ti_emulator::Local<type, (count)> name(#name)
#define TI_ARENA(bytes)                                                                            \
    enum { ti_arena_bytes = (bytes) };                                                             \
    ti_emulator_arena(bytes, __LINE__)
#define TI_SHARED(type, name, offset, count)                                                       \
    static_assert((offset) % sizeof(type) == 0, #name " is misaligned in shared memory");          \
    static_assert((offset) + (count) * sizeof(type) <= ti_arena_bytes, #name " is out of bounds"); \
    ti_buffer ti_part_of_##name = ti_emulator_part(#name, offset, count, sizeof(type));            \
    const ti_emulator::Memory<type> name = ti_emulator::part<type>(ti_part_of_##name)
#define TI_AT(name, memory, index)                                                                 \
    const auto name = ti_emulator::from(memory, (long long)(index))

#define TI_VEC_ACCESS(N)                                                                           \
    template <class M> ti_vec<typename M::value, N> ti_load##N(const M &memory, ti_emulator::At at) { \
        static_assert(sizeof(typename M::value) * N <= 16, "an access has 16 bytes at most");      \
        return memory.template read<N>(at);                                                        \
    }                                                                                              \
    template <class M>                                                                             \
    void ti_store##N(const M &memory, ti_emulator::At at, ti_vec<typename M::value, N> value) {    \
        static_assert(sizeof(typename M::value) * N <= 16, "an access has 16 bytes at most");      \
        memory.write(at, value);                                                                   \
    }
TI_VEC_ACCESS(2)
TI_VEC_ACCESS(4)
TI_VEC_ACCESS(8)
TI_VEC_ACCESS(16)

template <int N, class To, class From>
void ti_copy_async(const To &to, ti_emulator::At i, const From &from, ti_emulator::At j) {
    const long long goal = to.moved(i).index, source = from.moved(j).index;
    ti_emulator_copy_async_checked(to.buffer, goal, from.buffer, source, N, i.line);
}

#define ti_read_part(memory, index, count) ((memory).part(index, count, TI_READ))
#define ti_write_part(memory, index, count) ((memory).part(index, count, TI_WRITE))
#define ti_update_part(memory, index, count)                                                       \
    (ti_read_part(memory, index, count), ti_write_part(memory, index, count))
