# mypy: disable-error-code="no-untyped-call"
"""Makes numba cache compiled kernels in Cerise's directory, and only there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator

from cerise.kernels import cache
from cerise.kernels.first_use import FIRST_USE


class _Locator(UserProvidedCacheLocator):
    """Caches a kernel under its path in the package, so that another copy of the package finds it too."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)
        place = cache.directory()
        assert place is not None
        self._cache_path = str(place / self.get_suitable_cache_subpath(py_file))

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:
        """Return the locator of a function; its folder is private to the user."""
        found = cls(py_func, py_file)
        cache.make_private(Path(found.get_cache_path()))
        return found

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        path = Path(py_file)
        if not path.is_relative_to(cache.PACKAGE):
            return str(super().get_suitable_cache_subpath(py_file))
        return "_".join(path.parent.relative_to(cache.PACKAGE).parts)

    def get_source_stamp(self) -> Any:
        """Return an empty stamp for Cerise's own sources: the name of the directory carries their hash."""
        return "" if Path(self._py_file).is_relative_to(cache.PACKAGE) else super().get_source_stamp()


class _Results(CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012


class KernelCache(FunctionCache):
    """The cached machine code of a function.

    Numba runs the files that it finds there, so every access checks first who can write them.
    """

    _impl_class = _Results

    def __init__(self, function: Any) -> None:
        with _own_locators():
            super().__init__(function)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code compiled for a signature; None if it is missing or another user could write it."""
        found = super().load_overload(sig, target_context) if self._is_safe() else None
        if found is None:
            FIRST_USE.compiling()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        if self._is_safe():
            super().save_overload(sig, data)

    def _is_safe(self) -> bool:
        return cache.why_unsafe(Path(self.cache_path)) is None


@contextmanager
def _own_locators() -> Iterator[None]:
    """Keep numba from asking the locators that its own setting names."""
    before = getattr(config, "CACHE_LOCATOR_CLASSES", "")
    config.CACHE_LOCATOR_CLASSES = ""  # type: ignore[attr-defined]
    try:
        yield
    finally:
        config.CACHE_LOCATOR_CLASSES = before  # type: ignore[attr-defined]
