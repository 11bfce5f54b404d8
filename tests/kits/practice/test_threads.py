"""BLAS uses one thread while a small network learns, and its former number afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from headway.kits.practice import threads


def test_blas_has_one_thread_inside_and_its_former_number_outside() -> None:
    blas = threads._openblas()
    if blas is None:
        pytest.skip("numpy was not built with OpenBLAS here")
    get, put = blas
    before = get()
    put(2)
    try:
        with threads.one_thread():
            assert get() == 1
            assert np.allclose(np.eye(300) @ np.eye(300), np.eye(300))
        assert get() == 2
        with pytest.raises(ZeroDivisionError), threads.one_thread():
            raise ZeroDivisionError
        assert get() == 2
    finally:
        put(before)


def test_another_library_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_openblas", lambda: None)
    with threads.one_thread():
        pass
