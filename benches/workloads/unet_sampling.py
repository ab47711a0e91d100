"""Samples images with a small UNet in 30 steps of a diffusion process."""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(8, channels_in), nn.SiLU(), nn.Conv2d(channels_in, channels_out, 3, padding=1),
            nn.GroupNorm(8, channels_out), nn.SiLU(), nn.Conv2d(channels_out, channels_out, 3, padding=1),
        )
        self.skip = nn.Conv2d(channels_in, channels_out, 1)

    def forward(self, x):
        return self.body(x) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.enter = nn.Conv2d(4, width, 3, padding=1)
        self.down = nn.ModuleList([Block(width, width), Block(width, 2 * width), Block(2 * width, 4 * width)])
        self.middle = Block(4 * width, 4 * width)
        self.up = nn.ModuleList([Block(8 * width, 2 * width), Block(4 * width, width), Block(2 * width, width)])
        self.leave = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x, time):
        x = self.enter(x) + time.view(-1, 1, 1, 1)
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = nn.functional.avg_pool2d(x, 2)
        x = self.middle(x)
        for block in self.up:
            x = nn.functional.interpolate(x, scale_factor=2.0)
            x = block(torch.cat([x, skips.pop()], dim=1))
        return self.leave(x)


torch.manual_seed(0)
model = UNet().cuda().half().eval()
with torch.inference_mode():
    for image in range(6):
        x = torch.randn(4, 4, 64, 64, device="cuda", dtype=torch.half)
        for step in range(30):
            time = torch.full((4,), step / 30, device="cuda", dtype=torch.half)
            x = x - 0.02 * model(x, time)
        print(image, x.float().std().item())
