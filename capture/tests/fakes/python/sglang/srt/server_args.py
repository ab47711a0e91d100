"""As in SGLang 0.5."""
import dataclasses


@dataclasses.dataclass
class ServerArgs:
    model_path: str
    tp_size: int = 1
    dp_size: int = 1
    mem_fraction_static: float | None = None
    attention_backend: str | None = None
    api_key: str | None = None
    log_level: str = "info"
