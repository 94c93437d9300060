// C = A @ B by tiles of 128x128x8: 256 threads, each with 8x8 sums; two versions of each tile, one
// of which is written while the other one is read.
extern "C" __global__ void __launch_bounds__(256) matmul(TI_GLOBAL(const float) A, TI_GLOBAL(const float) B, TI_GLOBAL(float) C, int m, int k) {
    TI_ARENA(16384);
    TI_SHARED(float, A_shared, 0, 2048);
    TI_SHARED(float, B_shared, 8192, 2048);
    TI_LOCAL(float, C_local, 64);
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    #pragma unroll
    for (int i = 0; i < 64; i++) {
        C_local[i] = 0.0f;
    }
    for (int step = -1; step < k / 8; step++) {
        if (step + 1 < k / 8) {
            const int k0 = (step + 1) * 8, to = (step + 1) % 2 * 1024;
            const ti_vec<float, 4> a = ti_load4(A, (blockIdx.y * 128 + t / 2) * k + k0 + t % 2 * 4);
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                A_shared[to + (t % 2 * 4 + i) * 128 + t / 2] = a[i];
            }
            ti_store4(B_shared, to + t * 4, ti_load4(B, (k0 + t / 32) * m + blockIdx.x * 128 + t % 32 * 4));
        }
        if (step >= 0) {
            const int of = step % 2 * 1024;
            for (int kk = 0; kk < 8; kk++) {
                TI_LOCAL(float, A_local, 8);
                TI_LOCAL(float, B_local, 8);
                ti_store4(A_local, 0, ti_load4(A_shared, of + kk * 128 + ty * 8));
                ti_store4(A_local, 4, ti_load4(A_shared, of + kk * 128 + ty * 8 + 4));
                ti_store4(B_local, 0, ti_load4(B_shared, of + kk * 128 + tx * 4));
                ti_store4(B_local, 4, ti_load4(B_shared, of + kk * 128 + 64 + tx * 4));
                #pragma unroll
                for (int i = 0; i < 8; i++) {
                    #pragma unroll
                    for (int j = 0; j < 8; j++) {
                        C_local[i * 8 + j] += A_local[i] * B_local[j];
                    }
                }
            }
        }
        ti_sync(); // the next version is written, and this one is read
    }
    for (int i = 0; i < 8; i++) {
        ti_store4(C, (blockIdx.y * 128 + ty * 8 + i) * m + blockIdx.x * 128 + tx * 4, ti_load4(C_local, i * 8));
        ti_store4(C, (blockIdx.y * 128 + ty * 8 + i) * m + blockIdx.x * 128 + 64 + tx * 4, ti_load4(C_local, i * 8 + 4));
    }
}
