from . import optimizer


class AdamW:
    def step(self):
        for hook in optimizer.hooks:
            hook(self, (), {})
