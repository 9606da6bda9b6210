"""Every level as text: `show` and `read`.  The grammars stand at the head of graph.py, kernel.py and program.py."""
