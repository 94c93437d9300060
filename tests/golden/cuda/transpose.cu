typedef long long i64;

extern "C" __global__ void __launch_bounds__(256) transpose_0(TI_GLOBAL(const float) A, TI_GLOBAL(float) B) {
    TI_ARENA(4224);
    const i64 b = blockIdx.x;
    const i64 ty = threadIdx.y;
    const i64 tx = threadIdx.x;
    TI_SHARED(float, T, 0, 1056);
    {
        TI_AT(A_at_0, A, b * 32 + tx);
        TI_AT(T_at_1, T, tx);
        #pragma unroll
        for (i64 r = 0; r < 4; r++) {
            if (r * 8 + ty < 28 && b * 32 + tx < 37) {
                T_at_1[(r * 8 + ty) * 33] = A_at_0[(r * 8 + ty) * 37];
            }
        }
    }
    ti_sync();
    {
        TI_AT(T_at_2, T, tx * 33 + ty);
        TI_AT(B_at_3, B, tx);
        #pragma unroll
        for (i64 r = 0; r < 4; r++) {
            if (b * 32 + r * 8 + ty < 37 && tx < 28) {
                B_at_3[(b * 32 + r * 8 + ty) * 28] = T_at_2[r * 8];
            }
        }
    }
}
