// C = A @ B by tiles of 32x32x8: 64 threads, each with 4x4 sums; one version of each tile.
extern "C" __global__ void __launch_bounds__(64) tiled(TI_GLOBAL(const float) A, TI_GLOBAL(const float) B, TI_GLOBAL(float) C, int m, int k) {
    TI_ARENA(2048);
    TI_SHARED(float, A_shared, 0, 256);
    TI_SHARED(float, B_shared, 1024, 256);
    TI_LOCAL(float, C_local, 16);
    const int t = threadIdx.x, tx = t % 8, ty = t / 8;
    #pragma unroll
    for (int i = 0; i < 16; i++) {
        C_local[i] = 0.0f;
    }
    for (int k0 = 0; k0 < k; k0 += 8) {
        ti_sync(); // before the tiles are written again
        for (int i = 0; i < 4; i++) {
            A_shared[t + i * 64] = A[(blockIdx.y * 32 + t / 8 + i * 8) * k + k0 + t % 8];
            B_shared[t + i * 64] = B[(k0 + t / 32 + i * 2) * m + blockIdx.x * 32 + t % 32];
        }
        ti_sync(); // before the tiles are read
        for (int kk = 0; kk < 8; kk++) {
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                #pragma unroll
                for (int j = 0; j < 4; j++) {
                    C_local[i * 4 + j] += A_shared[(ty * 4 + i) * 8 + kk] * B_shared[kk * 32 + tx + j * 8];
                }
            }
        }
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            C[(blockIdx.y * 32 + ty * 4 + i) * m + blockIdx.x * 32 + tx + j * 8] = C_local[i * 4 + j];
        }
    }
}
