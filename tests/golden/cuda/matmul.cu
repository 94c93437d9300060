typedef long long i64;

extern "C" __global__ void __launch_bounds__(64) matmul_0(TI_GLOBAL(const float) A, TI_GLOBAL(const float) B, TI_GLOBAL(float) C) {
    TI_ARENA(4096);
    const i64 by = blockIdx.y;
    const i64 bx = blockIdx.x;
    const i64 ty = threadIdx.y;
    const i64 tx = threadIdx.x;
    TI_SHARED(float, As, 0, 512);
    TI_SHARED(float, Bs, 2048, 512);
    TI_LOCAL(float, acc, 16);
    #pragma unroll
    for (i64 z = 0; z < 16; z++) {
        acc[z] = 0.0f;
    }
    for (i64 k = 0; k < 4; k++) {
        {
            TI_AT(A_at_0, A, k * 16 + (tx & 3) * 4);
            TI_AT(As_at_1, As, ty * 64 + tx * 4);
            TI_AT(B_at_2, B, bx * 32 + tx * 4);
            TI_AT(Bs_at_3, Bs, ty * 64 + tx * 4);
            #pragma unroll
            for (i64 c = 0; c < 2; c++) {
                ti_store4(As_at_1, c * 32, ti_load4(A_at_0, (by * 32 + ty * 4 + c * 2 + (tx >> 2)) * 64));
                ti_store4(Bs_at_3, c * 32, ti_load4(B_at_2, (k * 16 + ty * 2 + c) * 64));
            }
        }
        ti_sync();
        for (i64 kk = 0; kk < 16; kk++) {
            {
                TI_AT(As_at_4, As, kk);
                TI_AT(Bs_at_5, Bs, kk * 32 + tx * 4);
                #pragma unroll
                for (i64 i = 0; i < 4; i++) {
                    #pragma unroll
                    for (i64 j = 0; j < 4; j++) {
                        acc[i * 4 + j] += As_at_4[(ty * 4 + i) * 16] * Bs_at_5[j];
                    }
                }
            }
        }
        ti_sync();
    }
    {
        TI_AT(C_at_6, C, bx * 32 + tx * 4);
        #pragma unroll
        for (i64 i = 0; i < 4; i++) {
            ti_store4(C_at_6, (by * 32 + ty * 4 + i) * 64, ti_vec<float, 4>{acc[i * 4], acc[i * 4 + 1], acc[i * 4 + 2], acc[i * 4 + 3]});
        }
    }
}
