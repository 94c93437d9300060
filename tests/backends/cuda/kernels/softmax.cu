// Softmax of rows: a warp a row, and a block of four warps a row.
extern "C" __global__ void __launch_bounds__(64) softmax_warp(TI_GLOBAL(const float) A, TI_GLOBAL(float) B, int rows, int columns) {
    const int lane = threadIdx.x % 32, row = blockIdx.x * 2 + threadIdx.x / 32;
    float most = -__int_as_float(0x7f800000), sum = 0.0f;
    for (int j = lane; j < columns; j += 32) {
        most = row < rows ? fmaxf(most, A[row * columns + j]) : most;
    }
    for (int far = 16; far > 0; far /= 2) {
        most = fmaxf(most, ti_shuffle_xor(most, far));
    }
    for (int j = lane; j < columns; j += 32) {
        sum += row < rows ? expf(A[row * columns + j] - most) : 0.0f;
    }
    for (int far = 16; far > 0; far /= 2) {
        sum += ti_shuffle_xor(sum, far);
    }
    if (row < rows) {
        for (int j = lane; j < columns; j += 32) {
            B[row * columns + j] = expf(A[row * columns + j] - most) / sum;
        }
    }
}
extern "C" __global__ void __launch_bounds__(128) softmax_block(TI_GLOBAL(const float) A, TI_GLOBAL(float) B, int columns) {
    TI_ARENA(32);
    TI_SHARED(float, mosts, 0, 4);
    TI_SHARED(float, sums, 16, 4);
    const int t = threadIdx.x, first = blockIdx.x * columns;
    float most = -__int_as_float(0x7f800000), sum = 0.0f;
    for (int j = t; j < columns; j += 128) {
        most = fmaxf(most, A[first + j]);
    }
    for (int far = 16; far > 0; far /= 2) {
        most = fmaxf(most, ti_shuffle_down(most, far));
    }
    if (t % 32 == 0) {
        mosts[t / 32] = most;
    }
    ti_sync(); // before the maxima are read
    most = fmaxf(fmaxf(mosts[0], mosts[1]), fmaxf(mosts[2], mosts[3]));
    for (int j = t; j < columns; j += 128) {
        sum += expf(A[first + j] - most);
    }
    for (int far = 16; far > 0; far /= 2) {
        sum += ti_shuffle_down(sum, far);
    }
    if (t % 32 == 0) {
        sums[t / 32] = sum;
    }
    ti_sync(); // before the sums are read
    sum = sums[0] + sums[1] + sums[2] + sums[3];
    for (int j = t; j < columns; j += 128) {
        B[first + j] = expf(A[first + j] - most) / sum;
    }
}
