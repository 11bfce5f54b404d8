"""engines — how a language model computes its next token, behind one interface.

openvino       Llama- and Qwen-like folders on a CPU, as a graph built from their safetensors: twice as fast; keys and
               values in blocks (paged), adapters as inputs or in the weights (graph)
transformers   any other folder, and cuda and mps

Both take adapters while they run: a batch names its adapter, and the next batch may name another one.
"""

import sys
from typing import Any, cast

# OpenVINO reports being imported to its makers. None makes `import openvino_telemetry` fail; it then uses a stub of its
# own that sends nothing.
cast(dict[str, Any], sys.modules).setdefault("openvino_telemetry", None)
