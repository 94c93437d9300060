typedef long long i64;

extern "C" __global__ void __launch_bounds__(32) two_kernels_0(TI_GLOBAL(const float) A, TI_GLOBAL(float) T, i64 n) {
    const i64 b = blockIdx.x;
    const i64 t = threadIdx.x;
    if (b * 32 + t < n) {
        T[b * 32 + t] = A[b * 32 + t] + 1.0f;
    }
}

extern "C" __global__ void two_kernels_1(TI_GLOBAL(float) B, TI_GLOBAL(const float) T, i64 n) {
    const i64 t = threadIdx.x;
    B[t] = T[n - 1 - t];
}

extern "C" __global__ void __launch_bounds__(1) two_kernels_2(TI_GLOBAL(float) B, TI_GLOBAL(const float) T, i64 n) {
    const i64 b = blockIdx.x;
    B[b] = T[n - 1 - b];
}

extern "C" __global__ void __launch_bounds__(1) two_kernels_3(TI_GLOBAL(const float) B, TI_GLOBAL(float) M) {
    M[0] = B[0];
}
