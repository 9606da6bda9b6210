"""Running every level: the definition that passes and runtimes are tested against."""
