// Element by element; counts are multiples of LANES.

// The exact form: x / 2 * (1 + erf(x / sqrt 2))
extern "C" __global__ void gelu(T* y, const T* x, u64 count) {
    u64 step = (u64)gridDim.x * blockDim.x * LANES;
    for (u64 i = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * LANES; i < count; i += step) {
        Pack p = load_pack(x + i);
        for (int l = 0; l < LANES; l++) {
            float v = to_float(p.lane[l]);
            p.lane[l] = from_float(0.5f * v * (1.0f + erff(v * 0.70710678f)));
        }
        store_pack(y + i, p);
    }
}

extern "C" __global__ void silu(T* y, const T* x, u64 count) {
    u64 step = (u64)gridDim.x * blockDim.x * LANES;
    for (u64 i = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * LANES; i < count; i += step) {
        Pack p = load_pack(x + i);
        for (int l = 0; l < LANES; l++) {
            float v = to_float(p.lane[l]);
            p.lane[l] = from_float(v / (1.0f + __expf(-v)));
        }
        store_pack(y + i, p);
    }
}

// y = silu(gate) * up
extern "C" __global__ void silu_mul(T* y, const T* gate, const T* up, u64 count) {
    u64 step = (u64)gridDim.x * blockDim.x * LANES;
    for (u64 i = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * LANES; i < count; i += step) {
        Pack g = load_pack(gate + i), u = load_pack(up + i);
        for (int l = 0; l < LANES; l++) {
            float v = to_float(g.lane[l]);
            g.lane[l] = from_float(v / (1.0f + __expf(-v)) * to_float(u.lane[l]));
        }
        store_pack(y + i, g);
    }
}

// Rotates the pairs (d, d + dim / 2) of each head by the angles of its token; one thread LANES pairs. x and y are
// [tokens, heads, dim], the tables [positions, dim / 2] in fp32; a token's position is its number modulo positions.
extern "C" __global__ void rotary(T* y, const T* x, const float* cosines, const float* sines, u64 pairs,
                                  u32 heads, u32 dim, u32 positions) {
    u64 i = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * LANES;
    if (i >= pairs) return;
    u32 half = dim / 2;
    u64 head = i / half;
    u32 d = (u32)(i % half);
    u32 position = (u32)(head / heads % positions);
    const T* in = x + head * dim + d;
    T* out = y + head * dim + d;
    Pack low = load_pack(in), high = load_pack(in + half);
    const float* c = cosines + (u64)position * half + d;
    const float* s = sines + (u64)position * half + d;
    for (int l = 0; l < LANES; l++) {
        float a = to_float(low.lane[l]), b = to_float(high.lane[l]);
        low.lane[l] = from_float(a * c[l] - b * s[l]);
        high.lane[l] = from_float(b * c[l] + a * s[l]);
    }
    store_pack(out, low);
    store_pack(out + half, high);
}
