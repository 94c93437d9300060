typedef long long i64;

extern "C" __global__ void __launch_bounds__(256) transpose_0(TI_GLOBAL(const float) A, TI_GLOBAL(float) B) {
    TI_ARENA(4224);
    const i64 b = blockIdx.x;
    const i64 ty = threadIdx.y;
    const i64 tx = threadIdx.x;
    TI_SHARED(float, T, 0, 1056);
    #pragma unroll
    for (i64 r = 0; r < 4; r++) {
        if (r * 8 + ty < 28 && b * 32 + tx < 37) {
            T[(r * 8 + ty) * 33 + tx] = A[(r * 8 + ty) * 37 + b * 32 + tx];
        }
    }
    ti_sync();
    #pragma unroll
    for (i64 r = 0; r < 4; r++) {
        if (b * 32 + r * 8 + ty < 37 && tx < 28) {
            B[(b * 32 + r * 8 + ty) * 28 + tx] = T[tx * 33 + r * 8 + ty];
        }
    }
}
