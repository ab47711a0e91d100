"""Parameters, FLOPs of a token and cache bytes of four models, from their public sizes, without Rooflens.

    python3 tests/reference/prediction.py

prints one line a model: parameters, FLOPs of the last of 1024 tokens (2 per multiply-add, causal attention, head
included), bytes of key-value cache a token in 16 bits. `src/base/llm/config/tests.rs` holds the same numbers.
"""

CONTEXT = 1024


def mlp(hidden, inner):
    return 3 * hidden * inner


def grouped(name, layers, hidden, inner, heads, kv_heads, size, vocab, experts=0, chosen=0, norms=0):
    attention = hidden * size * (2 * heads + 2 * kv_heads)
    if experts:
        stored = attention + hidden * experts + experts * mlp(hidden, inner)
        used = attention + hidden * experts + chosen * mlp(hidden, inner)
    else:
        stored = used = attention + mlp(hidden, inner)
    parameters = layers * (stored + 2 * hidden + norms) + 2 * vocab * hidden + hidden
    flops = 2 * (layers * used + vocab * hidden) + 2 * 2 * size * heads * layers * CONTEXT
    return name, parameters, flops, 2 * kv_heads * size * layers * 2


def deepseek_v3():
    layers, dense, hidden, vocab, heads = 61, 3, 7168, 129280, 128
    query, rank, nope, rope, value = 1536, 512, 128, 64, 128
    experts, chosen, inner = 256, 8, 2048
    attention = hidden * query + query * heads * (nope + rope) + hidden * (rank + rope)
    attention += rank * heads * (nope + value) + heads * value * hidden
    router = hidden * experts
    one = mlp(hidden, inner)
    norms = layers * (2 * hidden + query + rank) + hidden
    # One shared expert, and a bias of each routed one that balances their load.
    sparse = (layers - dense) * (router + experts + (experts + 1) * one)
    parameters = layers * attention + dense * mlp(hidden, 18432) + sparse + norms + 2 * vocab * hidden
    used = layers * attention + dense * mlp(hidden, 18432)
    used += (layers - dense) * (router + (chosen + 1) * one) + vocab * hidden
    flops = 2 * used + 2 * (nope + rope + value) * heads * layers * CONTEXT
    return "DeepSeek-V3", parameters, flops, (rank + rope) * layers * 2


MODELS = [
    grouped("Llama-3-8B", 32, 4096, 14336, 32, 8, 128, 128256),
    grouped("Mixtral-8x7B", 32, 4096, 14336, 32, 8, 128, 32000, experts=8, chosen=2),
    deepseek_v3(),
    grouped("Qwen3-30B-A3B", 48, 2048, 768, 32, 4, 128, 151936, experts=128, chosen=8, norms=2 * 128),
]

for name, parameters, flops, cache in MODELS:
    print(f"{name}: {parameters} parameters, {flops} FLOPs, {cache} B")
