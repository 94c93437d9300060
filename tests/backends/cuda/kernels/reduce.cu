// Sums of rows of float16 in float32: a block of 128 threads a row, by a tree in shared memory.
extern "C" __global__ void __launch_bounds__(128) reduce(TI_GLOBAL(const unsigned short) A, TI_GLOBAL(float) B, int columns) {
    TI_ARENA(512);
    TI_SHARED(float, partial, 0, 128);
    float sum = 0.0f;
    for (int j = threadIdx.x; j < columns; j += 128) {
        sum += ti_f16_to_f32(A[blockIdx.x * columns + j]);
    }
    partial[threadIdx.x] = sum;
    ti_sync();
    for (int far = 64; far > 16; far /= 2) {
        if (threadIdx.x < far) {
            partial[threadIdx.x] += partial[threadIdx.x + far];
        }
        ti_sync();
    }
    if (threadIdx.x < 32) {
        for (int far = 16; far > 0; far /= 2) {
            const float other = threadIdx.x < far ? partial[threadIdx.x + far] : 0.0f;
            ti_sync_warp(); // before a sum is replaced
            partial[threadIdx.x] += other;
            ti_sync_warp(); // before it is read
        }
    }
    if (threadIdx.x == 0) {
        B[blockIdx.x] = partial[0];
    }
}
