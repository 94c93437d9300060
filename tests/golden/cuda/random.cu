typedef unsigned u32;
typedef long long i64;
typedef unsigned long long u64;

static __device__ __forceinline__ u32 mulhi_u32(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }

static __device__ __forceinline__ u32 philox_u32(u32 a, u32 b, u32 c, u32 d, u32 k, u32 l, u32 word) {
    for (int n = 0; n < 10; n++) {
        u32 x = mulhi_u32(c, 0U + 0xcd9e8d57u) ^ b ^ k, y = mulhi_u32(a, 0U + 0xd2511f53u) ^ d ^ l;
        b = c * 0xcd9e8d57u;
        d = a * 0xd2511f53u;
        a = x;
        c = y;
        k += 0x9e3779b9u;
        l += 0xbb67ae85u;
    }
    u32 odd = -(word & 1u), late = -(word >> 1 & 1u);
    u32 early = a ^ ((a ^ b) & odd), other = c ^ ((c ^ d) & odd);
    return early ^ ((early ^ other) & late);
}

extern "C" __global__ void __launch_bounds__(32) random_0(TI_GLOBAL(u32) B, TI_GLOBAL(float) C) {
    const i64 b = blockIdx.y;
    const i64 t = threadIdx.x;
    B[b * 32 + t] = philox_u32((u32)(b * 32 + t), 0U, 0U, 0U, 7U, 0U, 1U);
    C[b * 32 + t] = (float)(B[b * 32 + t] >> 8) * 5.9604645e-08f;
}
