// One step of an LSTM after its matrix products: gates [batch, 4 * hidden] hold input, forget, cell and output
// before their functions, as PyTorch orders them. The cell state is fp32.
extern "C" __global__ void lstm_step(T* h, float* cell, const T* gates, u32 batch, u32 hidden) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (u64)batch * hidden) return;
    const T* g = gates + i / hidden * 4 * hidden + i % hidden;
    float input = 1.0f / (1.0f + __expf(-to_float(g[0])));
    float forget = 1.0f / (1.0f + __expf(-to_float(g[hidden])));
    float update = tanhf(to_float(g[2 * hidden]));
    float output = 1.0f / (1.0f + __expf(-to_float(g[3 * hidden])));
    float c = forget * cell[i] + input * update;
    cell[i] = c;
    h[i] = from_float(output * tanhf(c));
}
