"""An OpenAI-compatible server of a random decoder with continuous batching, for `rooflens-capture tune`.

usage: completion_server.py --max-num-seqs N [--port P]        needs a GPU and PyTorch

Each step answers one token of every request in a slot. A new request is prefilled between two steps, which delays all others.
"""
import argparse
import http.server
import json
import queue
import threading

import torch
import torch.nn.functional as F

LAYERS, WIDTH, HEADS, LENGTH, VOCABULARY = 24, 2048, 16, 1024, 32000

parser = argparse.ArgumentParser()
parser.add_argument("--max-num-seqs", type=int, required=True)
parser.add_argument("--port", type=int, default=8000)
options = parser.parse_args()
SLOTS = options.max_num_seqs
# A setting that does not start is a result of the search, too.
if SLOTS > 48:
    raise SystemExit(f"error: the cache of {SLOTS} sequences does not fit")

torch.manual_seed(0)
weight = lambda rows, columns: torch.randn(rows, columns, device="cuda", dtype=torch.half) * rows**-0.5
layers = [(weight(WIDTH, 3 * WIDTH), weight(WIDTH, WIDTH), weight(WIDTH, 4 * WIDTH), weight(4 * WIDTH, WIDTH)) for _ in range(LAYERS)]
embedding, head = weight(VOCABULARY, WIDTH), weight(WIDTH, VOCABULARY)
keys, values = (torch.zeros(LAYERS, SLOTS, HEADS, LENGTH, WIDTH // HEADS, device="cuda", dtype=torch.half) for _ in range(2))
positions = torch.arange(LENGTH, device="cuda")


def forward(tokens, slots, starts):
    """Next tokens of sequences of one length, whose keys and values go to these slots from these positions on."""
    count, length = tokens.shape
    places = starts[:, None] + positions[:length]
    mask = positions[None, None, None, :] <= places[:, None, :, None]
    x = embedding[tokens]
    for layer, (qkv, out, up, down) in enumerate(layers):
        parts = (F.layer_norm(x, (WIDTH,)) @ qkv).view(count, length, 3, HEADS, -1).unbind(2)
        query, key, value = (part.transpose(1, 2) for part in parts)
        keys[layer, slots[:, None], :, places] = key.transpose(1, 2)
        values[layer, slots[:, None], :, places] = value.transpose(1, 2)
        attended = F.scaled_dot_product_attention(query, keys[layer, slots], values[layer, slots], attn_mask=mask)
        x = x + attended.transpose(1, 2).reshape(count, length, WIDTH) @ out
        x = x + F.gelu(F.layer_norm(x, (WIDTH,)) @ up) @ down
    return (F.layer_norm(x[:, -1], (WIDTH,)) @ head).argmax(-1)


waiting = queue.Queue()


@torch.inference_mode()
def work():
    free, active = list(range(SLOTS)), {}  # By slot: next position, last token, tokens to answer, queue of answers.
    while True:
        while free and (not active or not waiting.empty()):
            prompt, left, answer = waiting.get()
            slot = free.pop()
            tokens = torch.randint(0, VOCABULARY, (1, prompt), device="cuda")
            token = forward(tokens, torch.tensor([slot], device="cuda"), torch.zeros(1, dtype=torch.long, device="cuda"))
            active[slot] = [prompt, token.item(), left, answer]
            answer.put(1)
        slots = sorted(active)
        rows = [active[slot] for slot in slots]
        tokens = torch.tensor([[row[1]] for row in rows], device="cuda")
        starts = torch.tensor([row[0] for row in rows], device="cuda")
        for slot, token in zip(slots, forward(tokens, torch.tensor(slots, device="cuda"), starts).tolist()):
            row = active[slot]
            row[0], row[1], row[2] = row[0] + 1, token, row[2] - 1
            row[3].put(1)
            if row[2] <= 1 or row[0] >= LENGTH - 1:
                row[3].put(None)
                del active[slot]
                free.append(slot)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer({"object": "list", "data": [{"id": "random-decoder", "object": "model"}]})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = max(1, min(len(str(request["prompt"]).split()), LENGTH // 2))
        answer = queue.Queue()
        waiting.put((prompt, max(2, request.get("max_tokens", 16)), answer))
        if request.get("stream"):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
        count = 0
        while answer.get() is not None:
            count += 1
            if request.get("stream"):
                self.event({"id": "1", "object": "text_completion", "choices": [{"index": 0, "text": " word", "finish_reason": None}]})
        usage = {"prompt_tokens": prompt, "completion_tokens": count, "total_tokens": prompt + count}
        last = {"id": "1", "object": "text_completion", "usage": usage, "choices": [{"index": 0, "text": "", "finish_reason": "length"}]}
        if not request.get("stream"):
            return self.answer(last)
        self.event(last)
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def event(self, value):
        self.chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


threading.Thread(target=work, daemon=True).start()
server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
server.daemon_threads = True
server.serve_forever()
