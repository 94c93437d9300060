// What the text of a kernel is written with. The same text is compiled by NVRTC, where a name stands
// for CUDA's own means or one PTX instruction, and by a C++ compiler against the emulator.
// A text takes the parts that it needs (prelude.py); each begins with "// part:".
#ifdef TENSORIR_EMULATOR
#include "device.h"
#else
// part: memory
// Parameters, registers, and parts of the one array in shared memory, by their byte offsets.
#define TI_GLOBAL(type) type *__restrict__
#define TI_LOCAL(type, name, count) alignas(16) type name[count]
#define TI_ARENA(bytes)                                                                            \
    enum { ti_arena_bytes = (bytes) };                                                             \
    extern __shared__ __align__(1024) unsigned char ti_arena[]
#define TI_SHARED(type, name, offset, count)                                                       \
    static_assert((offset) % sizeof(type) == 0, #name " is misaligned in shared memory");          \
    static_assert((offset) + (count) * sizeof(type) <= ti_arena_bytes, #name " is out of bounds"); \
    type *const name = reinterpret_cast<type *>(ti_arena + (offset))
// part: places
// The elements of memory from the one at `index` on.
#define TI_AT(name, memory, index) auto *const name = (memory) + (index)
// part: barriers
// All threads of the block, or all lanes of the warp, wait here for each other and see what the
// others wrote before.
__device__ __forceinline__ void ti_sync() { __syncthreads(); }
__device__ __forceinline__ void ti_sync_warp() { __syncwarp(); }
// part: shuffles
// The value that another lane of the warp has. All lanes take part; no memory is ordered. A lane
// beyond the warp's last one gets its own value (down); the value of a lane that does not exist is
// undefined.
template <class T> __device__ __forceinline__ T ti_shuffle(T value, int source) {
    return (T)__shfl_sync(0xffffffffu, value, source);
}
template <class T> __device__ __forceinline__ T ti_shuffle_xor(T value, int mask) {
    return (T)__shfl_xor_sync(0xffffffffu, value, mask);
}
template <class T> __device__ __forceinline__ T ti_shuffle_down(T value, int delta) {
    return (T)__shfl_down_sync(0xffffffffu, value, delta);
}
// part: vectors
// N elements side by side, 16 bytes at most: one access where they are aligned to their size.
template <class T, int N> struct alignas(sizeof(T) * N) ti_vec {
    T lane[N];
    __device__ __forceinline__ T &operator[](int i) { return lane[i]; }
    __device__ __forceinline__ const T &operator[](int i) const { return lane[i]; }
};
template <int N, class T> __device__ __forceinline__ ti_vec<T, N> ti_splat(T value) {
    ti_vec<T, N> result;
#pragma unroll
    for (int i = 0; i < N; i++) result.lane[i] = value;
    return result;
}
#define TI_VEC_OPERATOR(op)                                                                        \
    template <class T, int N>                                                                      \
    __device__ __forceinline__ ti_vec<T, N> operator op(ti_vec<T, N> a, ti_vec<T, N> b) {          \
        ti_vec<T, N> result;                                                                       \
        _Pragma("unroll") for (int i = 0; i < N; i++) result.lane[i] = a.lane[i] op b.lane[i];     \
        return result;                                                                             \
    }
TI_VEC_OPERATOR(+)
TI_VEC_OPERATOR(-)
TI_VEC_OPERATOR(*)
TI_VEC_OPERATOR(/)
#define TI_VEC_ACCESS(N)                                                                           \
    template <class T, class I>                                                                    \
    __device__ __forceinline__ ti_vec<T, N> ti_load##N(const T *memory, I index) {                 \
        static_assert(sizeof(T) * N <= 16, "an access has 16 bytes at most");                      \
        return *reinterpret_cast<const ti_vec<T, N> *>(memory + index);                            \
    }                                                                                              \
    template <class T, class I>                                                                    \
    __device__ __forceinline__ void ti_store##N(T *memory, I index, ti_vec<T, N> value) {          \
        static_assert(sizeof(T) * N <= 16, "an access has 16 bytes at most");                      \
        *reinterpret_cast<ti_vec<T, N> *>(memory + index) = value;                                 \
    }
TI_VEC_ACCESS(2)
TI_VEC_ACCESS(4)
TI_VEC_ACCESS(8)
TI_VEC_ACCESS(16)
// part: extrema
// The larger and the smaller of two numbers, NaN where one is; 0 is larger than -0.
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ float ti_max(float a, float b) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}
__device__ __forceinline__ float ti_min(float a, float b) {
    float result;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}
#else
__device__ __forceinline__ float ti_max(float a, float b) {
    return a != a ? a : b != b ? b : fmaxf(a, b);
}
__device__ __forceinline__ float ti_min(float a, float b) {
    return a != a ? a : b != b ? b : fminf(a, b);
}
#endif
// part: float16
// Storage types are bits; the hardware rounds to nearest, ties to even.
__device__ __forceinline__ float ti_f16_to_f32(unsigned short x) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x));
    return result;
}
__device__ __forceinline__ unsigned short ti_f16_from_f32(float x) {
    unsigned short result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(x));
    return result;
}
__device__ __forceinline__ unsigned short ti_f16_from_f64(double x) {
    unsigned short result;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(result) : "d"(x));
    return result;
}
// part: bfloat16
__device__ __forceinline__ float ti_bf16_to_f32(unsigned short x) {
    return __uint_as_float((unsigned)x << 16);
}
__device__ __forceinline__ unsigned short ti_bf16_from_f32(float x) { // sm_80 and later
    unsigned short result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(x));
    return result;
}
// part: asynchronous copies
// N elements (4, 8 or 16 bytes) from global to shared memory (sm_80 and later). They are there when
// the group in which they were committed has been waited for: all but the last `pending` groups are
// after the wait. Other threads see them after a barrier that follows.
template <int N, class T, class I, class J>
__device__ __forceinline__ void ti_copy_async(T *to, I i, const T *from, J j) {
    static_assert(N * sizeof(T) == 4 || N * sizeof(T) == 8 || N * sizeof(T) == 16, "4, 8, 16 bytes");
    const unsigned address = (unsigned)__cvta_generic_to_shared(to + i);
    if (N * sizeof(T) == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from + j) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from + j), "n"(N * sizeof(T) == 16 ? 4 : N * sizeof(T)) : "memory");
}
__device__ __forceinline__ void ti_copy_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int pending> __device__ __forceinline__ void ti_copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}
// part: extern parts
// The address of `count` elements that a function reads, writes, or reads and writes.
#define ti_read_part(memory, index, count) ((memory) + (index))
#define ti_write_part(memory, index, count) ((memory) + (index))
#define ti_update_part(memory, index, count) ((memory) + (index))
#endif
