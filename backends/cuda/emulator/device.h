// What the text of a kernel sees in place of CUDA when it is compiled for the CPU.
#pragma once
#include "interface.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define threadIdx (ti_emulator_place()->thread)
#define blockIdx (ti_emulator_place()->block)
#define blockDim (ti_emulator_place()->block_size)
#define gridDim (ti_emulator_place()->grid_size)

#include "math.h"
#include "vectors.h"
#ifdef TENSORIR_CHECKED
#include "checked.h"
#else
#include "direct.h"
#endif

inline void ti_sync(int line = __builtin_LINE()) { ti_emulator_barrier(TI_BLOCK, line); }
inline void ti_sync_warp(int line = __builtin_LINE()) { ti_emulator_barrier(TI_WARP, line); }

namespace ti_emulator {
inline int lane() {
    const ti_place *p = ti_emulator_place();
    return (p->thread.x + p->block_size.x * (p->thread.y + p->block_size.y * p->thread.z)) % 32;
}
template <class T> T exchange(T value, int source, const char *what, int line) {
    static_assert(sizeof(T) <= 16, "lanes exchange 16 bytes at most");
    ti_emulator_exchange(&value, sizeof(T), source, what, line);
    return value;
}
} // namespace ti_emulator

template <class T>
ti_emulator::value_of<T> ti_shuffle(T value, int source, int line = __builtin_LINE()) {
    using V = ti_emulator::value_of<T>;
    return ti_emulator::exchange<V>(value, source & 31, "ti_shuffle", line);
}
template <class T>
ti_emulator::value_of<T> ti_shuffle_xor(T value, int mask, int line = __builtin_LINE()) {
    using V = ti_emulator::value_of<T>;
    return ti_emulator::exchange<V>(value, (ti_emulator::lane() ^ mask) & 31, "ti_shuffle_xor", line);
}
template <class T>
ti_emulator::value_of<T> ti_shuffle_down(T value, int delta, int line = __builtin_LINE()) {
    using V = ti_emulator::value_of<T>;
    const int lane = ti_emulator::lane(), source = lane + delta;
    return ti_emulator::exchange<V>(value, source < 32 ? source : lane, "ti_shuffle_down", line);
}

inline void ti_copy_async_commit() { ti_emulator_copy_async_commit(); }
template <int pending> void ti_copy_async_wait() { ti_emulator_copy_async_wait(pending); }

#include "storage.h"

// The kernel as a function of an array: the address of a number, or of an array's ti_buffer.
namespace ti_emulator {
template <int... I> struct indices {};
template <int N, int... I> struct upto : upto<N - 1, N - 1, I...> {};
template <int... I> struct upto<0, I...> { using type = indices<I...>; };
template <class... P, int... I>
void call(void (*kernel)(P...), void *const *arguments, indices<I...>) {
    kernel(argument<P>::of(arguments[I])...);
}
template <class... P> void call(void (*kernel)(P...), void *const *arguments) {
    call(kernel, arguments, typename upto<sizeof...(P)>::type());
}
} // namespace ti_emulator
#define TI_EMULATED(kernel)                                                                        \
    extern "C" void kernel##_emulated(void *const *arguments) { ti_emulator::call(kernel, arguments); }
