#endif

typedef long long i64;

static __device__ __forceinline__ int floordiv_i32(int a, int b) {
    if (b == 0) return 0; /* as NumPy: no trap */
    if (b == -1) return (int)-a;
    return (int)(a / b - ((a % b != 0) & ((a ^ b) < 0)));
}

extern "C" __global__ void __launch_bounds__(16) vectors_0(TI_GLOBAL(const float) A, TI_GLOBAL(const int) I, TI_GLOBAL(float) B, TI_GLOBAL(int) C, TI_GLOBAL(float) R) {
    const i64 t = threadIdx.x;
    const ti_vec<float, 4> A_v = ti_load4(A, t * 4);
    const ti_vec<float, 4> x = ti_vec<float, 4>{A_v[0] + 1.0f, A_v[1] + 1.0f, A_v[2] + 1.0f, A_v[3] + 1.0f};
    ti_store4(B, t * 4, ti_vec<float, 4>{x[0] * x[0], x[1] * x[1], x[2] * x[2], x[3] * x[3]});
    ti_store4(B, 64 + t * 4, ti_vec<float, 4>{x[0] < 1.0f ? x[0] : ti_max(x[0], A[t * 4 + 64]), x[1] < 1.0f ? x[1] : ti_max(x[1], A[t * 4 + 64 + 1]), x[2] < 1.0f ? x[2] : ti_max(x[2], A[t * 4 + 64 + 2]), x[3] < 1.0f ? x[3] : ti_max(x[3], A[t * 4 + 64 + 3])});
    const ti_vec<float, 4> B_v = ti_vec<float, 4>{A[128 + t], A[128 + t + 16], A[128 + t + 32], A[128 + t + 48]};
    B[128 + t] = B_v[0];
    B[128 + t + 16] = B_v[1];
    B[128 + t + 32] = B_v[2];
    B[128 + t + 48] = B_v[3];
    ti_store4(B, 192 + t * 4, ti_vec<float, 4>{A[192 + t * 4 + 3], A[192 + t * 4 + 3 + -1], A[192 + t * 4 + 3 + -2], A[192 + t * 4 + 3 + -3]});
    const ti_vec<int, 4> I_v = ti_load4(I, t * 4);
    ti_store4(C, t * 4, ti_vec<int, 4>{floordiv_i32(I_v[0], 3) + I_v[0], floordiv_i32(I_v[1], 3) + I_v[1], floordiv_i32(I_v[2], 3) + I_v[2], floordiv_i32(I_v[3], 3) + I_v[3]});
    const ti_vec<float, 4> A_v_1 = ti_load4(A, t * 4);
    ti_store4(R, t * 4, ti_vec<float, 4>{A_v_1[3], A_v_1[2], A_v_1[1], A_v_1[0]});
    {
        const i64 k = t & 1;
        if (k == 0) {
            ti_store4(R, t * 4, ti_load4(A, t * 4));
        }
    }
}
