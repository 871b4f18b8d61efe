from __future__ import annotations

import gc
import weakref

from espalier.runtime.collector import keep_loaded


class Loaded:
    itself: Loaded


def test_what_is_loaded_is_not_visited_again_and_what_comes_later_is() -> None:
    loaded = Loaded()
    keep_loaded()
    try:
        assert not any(one is loaded for one in gc.get_objects())
        later = Loaded()
        later.itself = later
        gone = weakref.ref(later)
        del later
        gc.collect()
        assert gone() is None
    finally:
        gc.unfreeze()


def test_what_is_loaded_still_goes_with_its_last_reference() -> None:
    loaded = Loaded()
    keep_loaded()
    try:
        gone = weakref.ref(loaded)
        del loaded
        assert gone() is None
    finally:
        gc.unfreeze()
