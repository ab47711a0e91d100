"""Functions that are called when a module is imported, or at once if it is there already."""
import functools
import importlib.util
import sys

_waiting = {}
_said = set()


def say(function, error):
    """Prints an error of this function once."""
    said = f"{function.__module__}.{function.__qualname__}: {error!r}"
    if said not in _said and len(_said) < 20:
        _said.add(said)
        print(f"rooflens-capture: {said}", file=sys.stderr)


def quiet(function):
    """The same function, whose exceptions are said once and otherwise forgotten. It then gives None."""

    @functools.wraps(function)
    def guarded(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            say(function, error)
            return None

    return guarded


def on_import(name, hook):
    """Calls the hook with the module of this name once it is loaded."""
    module = sys.modules.get(name)
    if module is not None:
        quiet(hook)(module)
        return
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
    _waiting.setdefault(name, []).append(hook)


class Finder:
    """Finds the modules that are waited for as Python would, and calls their hooks after they are loaded."""

    def find_spec(self, name, path=None, target=None):
        hooks = _waiting.pop(name, None)
        if hooks is None:
            return None
        others = (finder for finder in list(sys.meta_path) if finder is not self and hasattr(finder, "find_spec"))
        spec = next((spec for spec in (finder.find_spec(name, path, target) for finder in others) if spec), None)
        if spec is None or not hasattr(spec.loader, "exec_module"):
            _waiting[name] = hooks  # A later attempt may find it.
            return spec
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            for hook in hooks:
                quiet(hook)(module)

        spec.loader.exec_module = exec_module
        return spec


def replace(owner, name, wrapper):
    """Puts `wrapper(old)` in the place of an attribute, with the name and documentation of what it replaces."""
    old = getattr(owner, name)
    setattr(owner, name, functools.wraps(old)(wrapper(old)))


def after(owner, name, hook):
    """Calls `hook(result, *args, **kwargs)` after each call that succeeds."""
    hook = quiet(hook)

    def wrapper(old):
        def called(*args, **kwargs):
            result = old(*args, **kwargs)
            hook(result, *args, **kwargs)
            return result

        return called

    replace(owner, name, wrapper)
