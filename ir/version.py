"""The compiler's version: in every emitted file, in `--version` and in cache keys.  The same as in pyproject.toml (a test compares)."""

VERSION = "0.1.0"
