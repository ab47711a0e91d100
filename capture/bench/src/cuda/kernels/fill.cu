// Values uniform in [-scale, scale], from a hash of the index (the finalizer of MurmurHash3, 64 bits).
__device__ u64 mix(u64 x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ (x >> 33);
}

extern "C" __global__ void fill(T* out, u64 count, u32 seed, float scale) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        u64 bits = mix(i + ((u64)(seed + 1) << 40));
#if defined(FP64)
        out[i] = scale * ((double)(bits >> 11) * (2.0 / 9007199254740991.0) - 1.0);
#else
        out[i] = from_float(scale * ((float)(bits >> 40) * (2.0f / 16777215.0f) - 1.0f));
#endif
    }
}

extern "C" __global__ void fill_indices(u32* out, u64 count, u32 seed, u32 bound) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        out[i] = (u32)(mix(i + ((u64)(seed + 1) << 40)) % bound);
    }
}
