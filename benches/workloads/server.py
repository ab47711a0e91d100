"""A server that answers requests in batches from a queue, and a client that sends forty of them."""
import http.client
import http.server
import json
import queue
import threading
import time

import torch
from torch import nn

torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(1024, 16, 4096, 0.0, "gelu", batch_first=True)
model = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).cuda().half().eval()
waiting = queue.Queue()


def work():
    while True:
        batch = [waiting.get()]
        while len(batch) < 8 and not waiting.empty():
            batch.append(waiting.get())
        length = max(tokens for tokens, _ in batch)
        with torch.inference_mode():
            x = torch.randn(len(batch), length, 1024, device="cuda", dtype=torch.half)
            scores = model(x).float().mean(dim=(1, 2)).cpu()
        for (_, answer), score in zip(batch, scores.tolist()):
            answer.put(score)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        tokens = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["tokens"]
        answer = queue.Queue()
        waiting.put((tokens, answer))
        body = json.dumps({"score": answer.get()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def ask(port, tokens):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/", json.dumps({"tokens": tokens}))
    connection.getresponse().read()


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
threading.Thread(target=work, daemon=True).start()
clients = []
for request in range(160):
    clients.append(threading.Thread(target=ask, args=(server.server_port, 64 + 61 * request % 448)))
    clients[-1].start()
    time.sleep(0.02)
for client in clients:
    client.join()
print("160 requests")
