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
    int number;       // of the parameter's array; -1 for a part of the arena
    const char *name;
    void *cells;      // what a checked run remembers of the elements (shadow.h)
    int granule;      // the bytes that a cell stands for
};

enum ti_access { TI_READ, TI_WRITE, TI_COPY };       // TI_COPY: written by an asynchronous copy
enum ti_scope { TI_BLOCK, TI_WARP, TI_EXCHANGE };    // who waits for whom at a barrier

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

// For checked runs. `touch` answers whether the access may be done.
ti_buffer ti_emulator_part(const char *name, int offset, int elements, int itemsize, int line);
int ti_emulator_touch(const ti_buffer *, long long index, int elements, int access, int line);
void ti_emulator_local_fault(const char *name, long long index, int elements, int write, int line);
int ti_emulator_note_itemsize(int itemsize); // of a part of shared memory, when the object is loaded
}
