/* twice, generated for c -vector_bits=512

   reads A: f32[48]
   writes T: f32[48]
*/

typedef __INT64_TYPE__ i64;

/* test.flip */
static void extern_f32_test_flip(const float *x, float *y, i64 n) { for (i64 i = 0; i < n; i++) y[i] = x[n - 1 - i]; }

int twice(const float *restrict A, float *restrict T) {
    float S[48] __attribute__((aligned(64)));
    {
        float B[48] __attribute__((aligned(64)));
        for (i64 i = 0; i < 6; i++) {
            for (i64 j = 0; j < 8; j++) {
                B[i * 8 + j] = A[i * 8 + j] + 1.0f;
            }
        }
        for (i64 i_S = 0; i_S < 6; i_S++) {
            extern_f32_test_flip(&B[i_S * 8], &S[i_S * 8], 8);
        }
    }
    for (i64 i_T = 0; i_T < 6; i_T++) {
        extern_f32_test_flip(&S[i_T * 8], &T[i_T * 8], 8);
    }
    return 0;
}

/* This kernel keeps no memory between calls. */
void twice_release(void) {}
