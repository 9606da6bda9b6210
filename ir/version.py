"""The compiler's version: in every emitted file, in `--version` and in cache keys.  The same as in pyproject.toml (a test compares)."""

from time import time

VERSION = "0.1.0"
LOADED = time()  # when this process began to load luminal: what has changed on disk since may not be what runs
