"""Trains a small GPT on a text file of random words with a DataLoader of two workers and gradient accumulation."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Words(Dataset):
    def __init__(self, length):
        self.tokens = torch.randint(0, 32000, (200_000,), generator=torch.Generator().manual_seed(0))
        self.length = length

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        start = index * 37 % (len(self.tokens) - self.length - 1)
        words = self.tokens[start : start + self.length + 1]
        return words[:-1], words[1:]


class GPT(nn.Module):
    def __init__(self, width=768, layers=8, heads=12, length=512):
        super().__init__()
        self.words = nn.Embedding(32000, width)
        self.places = nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 32000, bias=False)

    def forward(self, words):
        places = torch.arange(words.shape[1], device=words.device)
        mask = nn.Transformer.generate_square_subsequent_mask(words.shape[1], device=words.device)
        hidden = self.layers(self.words(words) + self.places(places), mask=mask, is_causal=True)
        return self.head(hidden)


def main():
    torch.manual_seed(0)
    model = GPT().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    loader = DataLoader(Words(512), batch_size=16, num_workers=2, shuffle=True)
    for step, (words, targets) in enumerate(loader):
        words, targets = words.cuda(), targets.cuda()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(words).flatten(0, 1), targets.flatten())
        (loss / 2).backward()
        if step % 2 == 1:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        if step % 20 == 0:
            print(step, loss.item())
        if step == 120:
            break


if __name__ == "__main__":
    main()
