// Bandwidth of reading alone and of writing alone, 16 bytes an access, four accesses in flight a thread.
extern "C" __global__ void read_only(const uint4* in, u64 count, u32* sink) {
    u64 step = (u64)gridDim.x * blockDim.x;
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u32 all = 0;
    for (; i + 3 * step < count; i += 4 * step) {
        uint4 a = in[i], b = in[i + step], c = in[i + 2 * step], d = in[i + 3 * step];
        all ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w;
        all ^= c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
    }
    for (; i < count; i += step) {
        uint4 a = in[i];
        all ^= a.x ^ a.y ^ a.z ^ a.w;
    }
    // Never optimized away; hardly ever executed.
    if (all == 0x9e3779b9u) *sink = all;
}

extern "C" __global__ void write_only(uint4* out, u64 count, u32 value) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        out[i] = make_uint4(value, value + (u32)i, value ^ (u32)i, value - (u32)i);
    }
}
