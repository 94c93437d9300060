typedef unsigned short f16; /* the bits of a half-precision number */
typedef unsigned short bf16; /* the upper half of a float's bits */
typedef unsigned char u8;
typedef signed char i8;
typedef long long i64;

extern "C" __global__ void __launch_bounds__(32) storage_0(TI_GLOBAL(const f16) A, TI_GLOBAL(const bf16) B, TI_GLOBAL(const u8) C, TI_GLOBAL(const i8) D, TI_GLOBAL(f16) E, TI_GLOBAL(bf16) F, TI_GLOBAL(u8) G, TI_GLOBAL(u8) H) {
    const i64 t = threadIdx.x;
    TI_LOCAL(u8, S, 2);
    const ti_vec<f16, 2> A_v = ti_load2(A, t * 2);
    ti_store2(E, t * 2, ti_vec<f16, 2>{ti_f16_from_f32(ti_f16_to_f32(A_v[0]) * 2.0f), ti_f16_from_f32(ti_f16_to_f32(A_v[1]) * 2.0f)});
    F[t * 2] = ti_bf16_from_f32(ti_bf16_to_f32(B[t * 2]) + ti_f16_to_f32(A[t]));
    F[t * 2 + 1] = ti_bf16_from_f32((double)ti_bf16_to_f32(B[t * 2 + 1]));
    S[0] = C[t] != 0;
    S[1] = !(C[t + 32] != 0);
    ti_store2(G, t * 2, ti_load2(C, t * 2));
    const ti_vec<i8, 2> D_v = ti_load2(D, t * 2);
    ti_store2(H, t * 2, ti_vec<u8, 2>{(u8)(i8)(D_v[0] * D_v[0]), (u8)(i8)(D_v[1] * D_v[1])});
    ti_sync();
    if (S[0] != 0 && S[1] != 0) {
        G[t] = D[t] < 3;
    }
}
