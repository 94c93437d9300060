#endif

typedef long long i64;
typedef unsigned long long u64;

#define INF_F32 bits_of_i32_as_f32(0x7f800000)

static __device__ __forceinline__ float bits_of_i32_as_f32(int x) {
    union { int x; float y; } v = {x};
    return v.y;
}

static __device__ __forceinline__ i64 shl_i64(i64 a, i64 b) { return (i64)((u64)b < 64 ? (i64)(a << b) : 0); }

static __device__ __forceinline__ float minc_f32(float a, float b) { return a < b ? a : b; }

static __device__ __forceinline__ float maxc_f32(float a, float b) { return a > b ? a : b; }

static __device__ __forceinline__ float scale_f32(float p, float n) {
    int k = (int)n, half = k >> 1;
    union { int i; float f; } a = {(half + 127) << 23}, b = {(k - half + 127) << 23};
    return p * a.f * b.f;
}

static __device__ __forceinline__ float pick_f32(float x, float y, float a, float b) { return x < y ? a : b; }

static __device__ __forceinline__ float exp_rest_f32(float c, float n) {
    float r = c - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float z = r * r, p = r * 8.368674e-3f + 4.1668262e-2f; /* in pairs: a shorter chain */
    p = z * 1.3821035e-3f + p;
    p = p * z + (r * 1.6666521e-1f + 4.9999994e-1f);
    return p * z + r;
}

static __device__ __forceinline__ float exp_f32(float x) {
    float least = 0.0f - 104.0f, c = minc_f32(0.0f + 89.0f, maxc_f32(least, x)); /* NaN stays NaN */
    float n = (c * 1.44269504f + 12582912.0f) - 12582912.0f;
    return scale_f32(pick_f32(x, least, 0.0f, exp_rest_f32(c, n) + 1.0f), n);
}

extern "C" __global__ void __launch_bounds__(64) softmax_0(TI_GLOBAL(const float) X, TI_GLOBAL(float) Y) {
    TI_ARENA(16);
    const i64 row = blockIdx.x;
    const i64 t = threadIdx.x;
    TI_SHARED(float, R, 0, 2);
    TI_LOCAL(float, m, 2);
    m[0] = -INF_F32;
    {
        TI_AT(X_at_0, X, row * 100 + t);
        for (i64 i = 0; i < 2; i++) {
            if (i * 64 + t < 100) {
                m[0] = ti_max(X_at_0[i * 64], m[0]);
            }
        }
    }
    #pragma unroll
    for (i64 e = 0; e < 5; e++) {
        m[1] = ti_shuffle(m[0], (t & 31) ^ shl_i64(1, e));
        m[0] = ti_max(m[1], m[0]);
    }
    if ((t & 31) == 0) {
        R[t >> 5] = m[0];
    }
    ti_sync();
    m[0] = ti_max(R[0], R[1]);
    ti_sync();
    m[1] = 0.0f;
    {
        TI_AT(X_at_1, X, row * 100 + t);
        for (i64 i = 0; i < 2; i++) {
            if (i * 64 + t < 100) {
                m[1] += exp_f32(X_at_1[i * 64] - m[0]);
            }
        }
    }
    {
        TI_LOCAL(float, p, 1);
        p[0] = ti_shuffle_xor(m[1], 16);
        m[1] += p[0];
        p[0] = ti_shuffle_xor(m[1], 8);
        m[1] += p[0];
        p[0] = ti_shuffle_xor(m[1], 4);
        m[1] += p[0];
        p[0] = ti_shuffle_down(m[1], 2);
        m[1] += p[0];
        p[0] = ti_shuffle_down(m[1], 1);
        m[1] += p[0];
        p[0] = ti_shuffle(m[1], 0);
        if ((t & 31) == 0) {
            R[t >> 5] = p[0];
        }
    }
    ti_sync();
    {
        TI_AT(X_at_2, X, row * 100 + t);
        TI_AT(Y_at_3, Y, row * 100 + t);
        for (i64 i = 0; i < 2; i++) {
            if (i * 64 + t < 100) {
                Y_at_3[i * 64] = exp_f32(X_at_2[i * 64] - m[0]) / (R[0] + R[1]);
            }
        }
    }
}
