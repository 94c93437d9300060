// B = A.T by tiles of 32x32 in rows of 33 elements, which lie in different banks.
extern "C" __global__ void __launch_bounds__(256) transpose(TI_GLOBAL(const float) A, TI_GLOBAL(float) B, int rows, int columns) {
    TI_ARENA(4224);
    TI_SHARED(float, tile, 0, 1056);
    for (int i = 0; i < 4; i++) {
        const int row = blockIdx.y * 32 + threadIdx.y + i * 8, column = blockIdx.x * 32 + threadIdx.x;
        if (row < rows && column < columns) {
            tile[(threadIdx.y + i * 8) * 33 + threadIdx.x] = A[row * columns + column];
        }
    }
    ti_sync();
    for (int i = 0; i < 4; i++) {
        const int row = blockIdx.y * 32 + threadIdx.x, column = blockIdx.x * 32 + threadIdx.y + i * 8;
        if (row < rows && column < columns) {
            B[column * rows + row] = tile[threadIdx.x * 33 + threadIdx.y + i * 8];
        }
    }
}
