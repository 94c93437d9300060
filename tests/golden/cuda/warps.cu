typedef long long i64;
typedef unsigned u32;

extern "C" __global__ void __launch_bounds__(64) warps_0(TI_GLOBAL(const int) A, TI_GLOBAL(int) B, TI_GLOBAL(i64) C) {
    TI_ARENA(256);
    const i64 t = threadIdx.x;
    TI_SHARED(int, S, 0, 64);
    TI_LOCAL(i64, x, 1);
    S[t] = (int)((u32)A[t] * (u32)2);
    ti_sync_warp();
    B[t] = S[(t >> 5) * 32 + (31 - (t & 31))];
    x[0] = ti_shuffle((i64)A[t] * (i64)A[t], (t + 1) & 31);
    C[t] = x[0];
}
