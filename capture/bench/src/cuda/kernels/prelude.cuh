// Number formats without headers: NVRTC has none for bf16 and fp16 built in.
// Exactly one of FP64, FP32, FP16, BF16, FP8, INT8 is defined.
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

#if defined(FP64)
typedef double T;
__device__ __forceinline__ float to_float(T x) { return (float)x; }
__device__ __forceinline__ T from_float(float x) { return x; }
#elif defined(FP32)
typedef float T;
__device__ __forceinline__ float to_float(T x) { return x; }
__device__ __forceinline__ T from_float(float x) { return x; }
#elif defined(FP16)
typedef u16 T;
__device__ __forceinline__ float to_float(T x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}
__device__ __forceinline__ T from_float(float x) {
    T y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}
#elif defined(BF16)
typedef u16 T;
__device__ __forceinline__ float to_float(T x) { return __uint_as_float((u32)x << 16); }
__device__ __forceinline__ T from_float(float x) {
#if __CUDA_ARCH__ >= 800
    T y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
#else
    // To nearest, ties to even; there is no NaN in the data.
    u32 bits = __float_as_uint(x);
    return (T)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}
#elif defined(FP8)
typedef u8 T;
__device__ __forceinline__ T from_float(float x) {
    u16 pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    return (T)pair;
}
#elif defined(INT8)
typedef signed char T;
__device__ __forceinline__ T from_float(float x) { return (T)__float2int_rn(127.0f * x); }
#endif

// What one 16-byte access moves.
#define LANES (16 / (int)sizeof(T))
union Pack {
    uint4 raw;
    T lane[LANES];
};
__device__ __forceinline__ Pack load_pack(const T* at) {
    Pack pack;
    pack.raw = *reinterpret_cast<const uint4*>(at);
    return pack;
}
__device__ __forceinline__ void store_pack(T* at, const Pack& pack) {
    *reinterpret_cast<uint4*>(at) = pack.raw;
}
