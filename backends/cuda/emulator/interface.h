// What kernels and the runtime of the emulator know of each other. No system header: reading one
// takes longer than compiling a kernel.
#pragma once

struct uint3 {
    unsigned x, y, z;
};

// Where a thread is. Every thread of the block that runs has one.
struct ti_place {
    uint3 thread, block, block_size, grid_size;
};

// A parameter, or a part of the arena in shared memory.
struct ti_buffer {
    unsigned char *data;
    long long elements;
    int itemsize;
    int shared; // whether it is in shared memory
    int given;  // whether it held something before the first launch
    const char *name;
    void *cells; // what a checked run remembers of it (checker.h), from its first byte on
    int each;    // the cells of one element
};

// TI_COPY: an asynchronous copy will write it; TI_PART: several elements, by a function's own accesses
enum ti_access { TI_READ, TI_WRITE, TI_COPY, TI_PART = 4 };
enum ti_scope { TI_BLOCK, TI_WARP }; // who waits for whom at a barrier

extern "C" {
const ti_place *ti_emulator_place(void) __attribute__((const)); // never changes for one thread
unsigned char *ti_emulator_arena(int bytes, int line);
void ti_emulator_barrier(int scope, int line);
// `value` becomes that of the lane `source` (below 0: undefined); `what` names the function.
void ti_emulator_exchange(void *value, int size, int source, const char *what, int line);
void ti_emulator_misaligned(const char *name, const void *address, int bytes, int line);
void ti_emulator_copy_async(void *to, const void *from, int bytes);
void ti_emulator_copy_async_commit(void);
void ti_emulator_copy_async_wait(int pending);

// For checked runs. The answer is whether the access may be done; what is wrong has been reported.
ti_buffer ti_emulator_part(const char *name, int offset, int elements, int itemsize);
int ti_emulator_touch(const ti_buffer *, long long index, int count, int access, int line);
int ti_emulator_local_fault(const char *name, long long index, int count, int elements, int access,
                            int line);
void ti_emulator_copy_async_checked(const ti_buffer *to, long long i, const ti_buffer *from,
                                    long long j, int count, int line);
// A thread begins a step of a loop, and ends it, giving back what the beginning returned.
unsigned long ti_emulator_begin_step(long long number, int line);
void ti_emulator_end_step(unsigned long before);
int ti_emulator_note_itemsize(int itemsize); // of a part of shared memory, when the object is loaded
}
