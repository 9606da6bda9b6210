"""Named rules that each level must satisfy."""
