"""OpenVINO without its telemetry: importing it would otherwise report the import to its makers.

openvino >= 2026.2. Two transformations have no public name and are imported from `_offline_transformations`: paged
attention, which many replies at once need, and float16 constants, which keep a model in half of the memory. Nothing
else of Headway uses a private name of OpenVINO; tests/architecture/test_private_names.py fails when these change.
"""

from __future__ import annotations

import sys
from typing import Any, cast

from headway.nouns import errors

__all__ = ["compress", "op", "ov", "page"]

# None makes `import openvino_telemetry` fail; OpenVINO then uses a stub of its own that sends nothing.
cast(dict[str, Any], sys.modules).setdefault("openvino_telemetry", None)

try:
    import openvino as ov
    from openvino import opset13 as op

    # Stores constants in float16 and marks them; without the mark, compiling turns them into float32 again.
    # Replaces the state of a graph by paged attention, as OpenVINO GenAI does it.
    from openvino._offline_transformations import (
        compress_model_transformation as compress,
        paged_attention_transformation as page,
    )
except ImportError as error:
    raise errors.MissingExtra("The engine 'openvino'", "openvino", "language") from error
