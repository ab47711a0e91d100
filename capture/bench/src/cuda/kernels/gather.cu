// y[t] = table[index[t]]: a block a token.
extern "C" __global__ void embedding(T* y, const T* table, const u32* index, u32 hidden) {
    const T* in = table + (u64)index[blockIdx.x] * hidden;
    T* out = y + (u64)blockIdx.x * hidden;
    for (u32 c = threadIdx.x * LANES; c < hidden; c += blockDim.x * LANES) {
        store_pack(out + c, load_pack(in + c));
    }
}

// Patches of an image x[batch, height, width, channels] as rows of a matrix [batch * rows * columns,
// kernel * kernel * channels], zero outside the image; channels are a multiple of LANES.
extern "C" __global__ void patches(T* y, const T* x, u64 packs, u32 height, u32 width, u32 channels, u32 rows,
                                   u32 columns, u32 kernel, u32 stride, u32 padding) {
    u32 depth = channels / LANES;
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < packs; i += step) {
        u64 rest = i;
        u32 c = (u32)(rest % depth); rest /= depth;
        u32 kx = (u32)(rest % kernel); rest /= kernel;
        u32 ky = (u32)(rest % kernel); rest /= kernel;
        u32 column = (u32)(rest % columns); rest /= columns;
        u32 row = (u32)(rest % rows); rest /= rows;
        int h = (int)(row * stride + ky) - (int)padding, w = (int)(column * stride + kx) - (int)padding;
        Pack p;
        p.raw = make_uint4(0, 0, 0, 0);
        if (h >= 0 && h < (int)height && w >= 0 && w < (int)width) {
            p = load_pack(x + ((rest * height + h) * width + w) * channels + c * LANES);
        }
        store_pack(y + i * LANES, p);
    }
}
