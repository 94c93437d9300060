typedef long long i64;

extern "C" __global__ void __launch_bounds__(2) in_place_0() {
}

extern "C" __global__ void __launch_bounds__(1) in_place_1(TI_GLOBAL(const double) A, TI_GLOBAL(double) C, i64 n) {
    const i64 t = blockIdx.x;
    {
        TI_AT(A_at_0, A, t);
        for (i64 k = 0; k < 3; k++) {
            C[t] += A_at_0[k * n];
        }
    }
    C[t] = t != 0 ? C[t] : 1.5f;
}
