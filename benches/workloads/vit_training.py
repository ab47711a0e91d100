"""Trains a vision transformer on random images with AdamW and autocast."""
import torch
import torchvision

torch.manual_seed(0)
model = torchvision.models.vit_b_16().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
images = torch.randn(64, 3, 224, 224, device="cuda")
labels = torch.randint(0, 1000, (64,), device="cuda")
for step in range(80):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
