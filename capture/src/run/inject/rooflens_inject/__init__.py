"""What rooflens-capture runs inside of a Python workload. Nothing happens until the workload imports torch or an engine.

    loading   calls functions when modules are imported
    ranges    tells listeners of NVTX ranges
    tracer    torch.profiler around chosen ranges or steps
    clock     CUDA events that nobody waits for
    stages    how long ranges take, and what happens in them
    marks     ranges around what the host does: collections, loaders, compilation, synchronizing calls
    models    which models are built, and what shapes they are called with
    training  optimizers, backward passes, parallel groups
    steps     ranges where the workload opens none
    engines   arguments and batches of vLLM and SGLang
    window    ncu in chosen instances of ranges, and the end of the workload after them
    deadline  the end of the workload when the time of the pass is up
    steps_window  profilers in chosen steps
    notes     the file that all of it ends up in
"""


def start(environment):
    """Begins what the environment asks for: a trace, notes, ranges of our own, or several of them."""
    trace, notes = environment.get("ROOFLENS_TORCH_DIR"), environment.get("ROOFLENS_NOTES_DIR")
    own, window, marked = (environment.get(f"ROOFLENS_{name}") for name in ("STEPS", "WINDOW", "MARKS"))
    is_limited = environment.get("ROOFLENS_RANGES") or environment.get("ROOFLENS_INSTANCES")
    deadline = environment.get("ROOFLENS_DEADLINE")
    if not (trace or notes or own or window or marked or is_limited or deadline):
        return
    from . import loading

    if trace:
        from . import tracer

        loading.on_import("torch", tracer.install)
    if is_limited:
        from . import window as ranges_window

        loading.on_import("torch", ranges_window.install)
    elif deadline:
        from . import deadline as time_limit

        loading.on_import("torch", time_limit.install)
    if marked:
        from . import marks

        loading.on_import("torch", marks.install)
    if notes or own or window or marked:
        from . import engines, models, steps, training
        from .notes import mark

        if notes:
            mark(notes, "python")
            loading.on_import("torch", lambda torch: mark(notes, "torch"))
        # In this order: what models and optimizers do is told to steps, which time or open ranges.
        loading.on_import("torch", lambda torch: steps.install(torch, notes, own))
        loading.on_import("torch", models.install)
        loading.on_import("torch", training.install)
        for name, install in models.LATER + training.LATER + engines.LATER:
            loading.on_import(name, install)
