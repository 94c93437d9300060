// B[i] = A[i - 1] + A[i] by chunks of 128 in two stages, the next of which is copied meanwhile.
extern "C" __global__ void __launch_bounds__(32) staged(TI_GLOBAL(const float) A, TI_GLOBAL(float) B, int chunks) {
    TI_ARENA(1024);
    TI_SHARED(float, stages, 0, 256);
    float last = 0.0f;
    ti_copy_async<4>(stages, threadIdx.x * 4, A, threadIdx.x * 4);
    ti_copy_async_commit();
    for (int c = 0; c < chunks; c++) {
        if (c + 1 < chunks) {
            ti_copy_async<4>(stages, (c + 1) % 2 * 128 + threadIdx.x * 4, A, (c + 1) * 128 + threadIdx.x * 4);
        }
        ti_copy_async_commit();
        ti_copy_async_wait<1>();
        ti_sync();
        for (int i = 0; i < 4; i++) {
            const int at = i * 32 + threadIdx.x;
            B[c * 128 + at] = stages[c % 2 * 128 + at] + (at > 0 ? stages[c % 2 * 128 + at - 1] : last);
        }
        last = stages[c % 2 * 128 + 127];
        ti_sync();
    }
}
